// Making communicators: by root information, by rank table, for one process's devices, from another one.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>

#include "communicator.h"
#include "meeting.h"
#include "runtime/launch.h"

namespace npu::emulator::hccl {
namespace {

/// What is honoured of HcclCommConfig: the rest chooses among algorithms and buffers of the hardware.
struct Settings {
    std::string name;
    int32_t exec_timeout = HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
};

/// `fd` (taken) holds the group's segment; -1 for a group of one rank.
HcclResult create(int fd, uint32_t ranks, uint32_t rank, const Settings& settings, HcclComm* handle,
                  const char* function) {
    auto communicator = std::make_shared<Communicator>();
    communicator->name = settings.name;
    communicator->rank = rank;
    communicator->size = ranks;
    communicator->sent.resize(ranks);
    communicator->received.resize(ranks);
    if (ranks > 1) {
        const HcclResult code = join(fd, ranks, rank, function, communicator.get());
        if (code != HCCL_SUCCESS) return code;
    }
    if (settings.exec_timeout >= 0) communicator->exec_timeout = settings.exec_timeout;
    *handle = publish(std::move(communicator));
    return HCCL_SUCCESS;
}

HcclResult check_ranks(uint32_t ranks, uint32_t rank, const HcclComm* handle, const char* function) {
    const std::string prefix = std::string(function) + ": ";
    if (handle == nullptr) return refuse(HCCL_E_PTR, prefix + "comm is null");
    if (ranks == 0 || rank >= ranks) {
        return refuse(HCCL_E_PARA, prefix + "rank " + std::to_string(rank) + " is not one of " +
                                       std::to_string(ranks) + " ranks");
    }
    if (ranks > kMaxRanks) {
        return refuse(HCCL_E_NOT_SUPPORT,
                      prefix + "a group of " + std::to_string(ranks) +
                          " ranks was asked for; the host emulator of CANN joins at most " +
                          std::to_string(kMaxRanks) + " on one machine");
    }
    return HCCL_SUCCESS;
}

/// Bytes of HcclCommConfig that the caller has, from its first word; the layouts of three releases are known.
struct ConfigHeader {
    size_t size;
    uint32_t magic;
    uint32_t version;
    uint64_t reserved;
};
static_assert(sizeof(ConfigHeader) == HCCL_COMM_CONFIG_INFO_BYTES);

HcclResult read_settings(const HcclCommConfig* config, Settings* settings, const char* function) {
    if (config == nullptr) return HCCL_SUCCESS;
    ConfigHeader header;
    std::memcpy(&header, config, sizeof header);
    if (header.magic != HCCL_COMM_CONFIG_MAGIC_WORD || header.size < sizeof header) {
        return refuse(HCCL_E_PARA,
                      std::string(function) +
                          ": the configuration was not initialised; call HcclCommConfigInit on it first");
    }
    // Clients of old releases hand down 32 bytes: up to the name, without it.
    constexpr size_t name_end = offsetof(HcclCommConfig, hcclCommName) + sizeof config->hcclCommName;
    constexpr size_t timeout_end = offsetof(HcclCommConfig, hcclExecTimeOut) + sizeof(int32_t);
    if (header.size >= name_end) {
        const char* text = config->hcclCommName;
        settings->name.assign(text, strnlen(text, sizeof config->hcclCommName));
    }
    if (header.size >= timeout_end) settings->exec_timeout = config->hcclExecTimeOut;
    return HCCL_SUCCESS;
}

/// Values of "rank_id" in a rank table (JSON), which has one for each device.
std::vector<uint32_t> rank_ids(const std::string& text) {
    constexpr std::string_view key = "\"rank_id\"";
    std::vector<uint32_t> ids;
    for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
        at = text.find_first_not_of(" \t\r\n:\"", at + key.size());
        const bool number = at != std::string::npos && std::isdigit(static_cast<unsigned char>(text[at]));
        ids.push_back(number ? static_cast<uint32_t>(std::strtoul(text.c_str() + at, nullptr, 10))
                             : UINT32_MAX);
    }
    return ids;
}

/// Checks the table: its ranks are 0 to n - 1, each once.
HcclResult count_ranks(const char* path, uint32_t* ranks, const char* function) {
    const std::string prefix =
        std::string(function) + ": the rank table " + (path == nullptr ? "(null)" : path);
    std::ifstream file(path == nullptr ? "" : path);
    if (!file) return refuse(HCCL_E_OPEN_FILE_FAILURE, prefix + " cannot be read");
    std::vector<uint32_t> ids = rank_ids(std::string((std::istreambuf_iterator<char>(file)), {}));
    if (ids.empty()) return refuse(HCCL_E_PARA, prefix + " names no rank_id");
    std::vector<uint32_t> expected(ids.size());
    std::iota(expected.begin(), expected.end(), 0U);
    std::ranges::sort(ids);
    if (ids != expected) {
        return refuse(HCCL_E_PARA, prefix + " names " + std::to_string(ids.size()) +
                                       " ranks, but its values of rank_id are not 0 to " +
                                       std::to_string(ids.size() - 1) + ", each once");
    }
    *ranks = static_cast<uint32_t>(ids.size());
    return HCCL_SUCCESS;
}

HcclResult init_by_root(uint32_t ranks, const HcclRootInfo* root, uint32_t rank, const Settings& settings,
                        HcclComm* comm, const char* function) {
    if (root == nullptr) return refuse(HCCL_E_PTR, std::string(function) + ": rootInfo is null");
    if (const HcclResult code = check_ranks(ranks, rank, comm, function); code != HCCL_SUCCESS) return code;
    SharedFile file;
    if (std::sscanf(root->internal, "npu-emulator:%d:%d:%u", &file.pid, &file.fd, &file.nonce) != 3) {
        return refuse(HCCL_E_PARA, std::string(function) +
                                       ": rootInfo was not made by the host emulator's "
                                       "HcclGetRootInfo; all ranks must use one CANN");
    }
    const int fd = ranks > 1 ? open_shared(file) : -1;
    if (ranks > 1 && fd < 0) {
        return refuse(HCCL_E_NOT_FOUND,
                      std::string(function) + ": process " + std::to_string(file.pid) +
                          ", which made rootInfo (in most programs rank 0), has ended, is on another "
                          "machine or another user's");
    }
    const HcclResult code = create(fd, ranks, rank, settings, comm, function);
    leave_meeting_place(file);
    return code;
}

HcclResult init_by_table(const char* path, uint32_t rank, const HcclCommConfig* config, HcclComm* comm,
                         const char* function) {
    Settings settings;
    uint32_t ranks = 0;
    if (const HcclResult code = read_settings(config, &settings, function); code != HCCL_SUCCESS) return code;
    if (const HcclResult code = count_ranks(path, &ranks, function); code != HCCL_SUCCESS) return code;
    if (const HcclResult code = check_ranks(ranks, rank, comm, function); code != HCCL_SUCCESS) return code;
    if (ranks == 1) return create(-1, ranks, rank, settings, comm, function);
    const TableMeeting meeting(path, ranks);
    if (meeting.fd() < 0) {
        return refuse(HCCL_E_SYSCALL, std::string(function) + ": the ranks of " + path +
                                          " cannot meet: " + std::strerror(errno));
    }
    return create(meeting.fd(), ranks, rank, settings, comm, function);
}

/// Devices of this process, each once.
HcclResult check_devices(uint32_t count, const int32_t* devices, const char* function) {
    uint32_t available = 0;
    if (aclrtGetDeviceCount(&available) != ACL_SUCCESS) return HCCL_E_RUNTIME;
    for (uint32_t i = 0; i < count; ++i) {
        if (devices[i] >= 0 && static_cast<uint32_t>(devices[i]) < available &&
            std::find(devices, devices + i, devices[i]) == devices + i)
            continue;
        return refuse(HCCL_E_PARA, std::string(function) + ": device " + std::to_string(devices[i]) +
                                       " is named twice, or is not one of the " + std::to_string(available) +
                                       " devices (NPU_EMULATOR_DEVICES changes their number)");
    }
    return HCCL_SUCCESS;
}

}  // namespace
}  // namespace npu::emulator::hccl

using namespace npu::emulator;
using namespace npu::emulator::hccl;

/// Names a memory file of this process, in which the group will meet.
HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
    if (rootInfo == nullptr) return refuse(HCCL_E_PTR, "HcclGetRootInfo: rootInfo is null");
    const std::optional<SharedFile> file = meeting_place();
    if (!file) return refuse(HCCL_E_SYSCALL, "HcclGetRootInfo: the host gave no memory file");
    std::memset(rootInfo, 0, sizeof *rootInfo);
    std::snprintf(rootInfo->internal, sizeof rootInfo->internal, "npu-emulator:%d:%d:%u", file->pid, file->fd,
                  file->nonce);
    return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                HcclComm* comm) {
    return init_by_root(nRanks, rootInfo, rank, {}, comm, "HcclCommInitRootInfo");
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* comm) {
    constexpr const char* function = "HcclCommInitRootInfoConfig";
    Settings settings;
    if (const HcclResult code = read_settings(config, &settings, function); code != HCCL_SUCCESS) return code;
    return init_by_root(nRanks, rootInfo, rank, settings, comm, function);
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm) {
    return init_by_table(clusterInfo, rank, config, comm, "HcclCommInitClusterInfoConfig");
}

HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
    return init_by_table(clusterInfo, rank, nullptr, comm, "HcclCommInitClusterInfo");
}

/// comms: ndev handles, one for each device of this process; all of them or none.
HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
    constexpr const char* function = "HcclCommInitAll";
    if (devices == nullptr) return refuse(HCCL_E_PTR, std::string(function) + ": devices is null");
    if (const HcclResult code = check_ranks(ndev, 0, comms, function); code != HCCL_SUCCESS) return code;
    if (const HcclResult code = check_devices(ndev, devices, function); code != HCCL_SUCCESS) return code;
    HcclRootInfo root;
    if (const HcclResult code = HcclGetRootInfo(&root); code != HCCL_SUCCESS) return code;
    std::vector<HcclResult> codes(ndev);
    std::vector<std::string> sentences(ndev);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ndev; ++rank) {
        threads.emplace_back([&, rank] {
            codes[rank] = init_by_root(ndev, &root, rank, {}, &comms[rank], function);
            sentences[rank] = recent_sentence();
        });
    }
    for (std::thread& thread : threads) thread.join();
    const auto failed = std::ranges::find_if(codes, [](HcclResult code) { return code != HCCL_SUCCESS; });
    if (failed == codes.end()) return HCCL_SUCCESS;
    for (uint32_t rank = 0; rank < ndev; ++rank) {
        if (codes[rank] == HCCL_SUCCESS) forget(comms[rank]);
    }
    set_recent_sentence(sentences[static_cast<std::size_t>(failed - codes.begin())]);
    return *failed;
}

/// rankIds: ranks of `comm` that form the group, in its order. A rank outside of it passes no ids and the
/// group's number 0xffffffff, and gets no communicator.
HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
    constexpr const char* function = "HcclCreateSubCommConfig";
    const std::string prefix = std::string(function) + ": ";
    if (comm == nullptr || subComm == nullptr) return refuse(HCCL_E_PTR, prefix + "a pointer is null");
    const auto parent = find(*comm, function);
    if (!parent) return HCCL_E_PARA;
    if (rankIds == nullptr && subCommId == UINT32_MAX) {
        *subComm = nullptr;
        return HCCL_SUCCESS;
    }
    if (rankIds == nullptr) return refuse(HCCL_E_PTR, prefix + "rankIds is null");
    Settings settings;
    if (const HcclResult code = read_settings(config, &settings, function); code != HCCL_SUCCESS) return code;
    if (const HcclResult code = check_ranks(rankNum, subCommRankId, subComm, function); code != HCCL_SUCCESS)
        return code;
    const std::vector<uint32_t> ids(rankIds, rankIds + rankNum);
    for (auto id = ids.begin(); id != ids.end(); ++id) {
        if (*id < parent->size && std::find(ids.begin(), id, *id) == id) continue;
        return refuse(HCCL_E_PARA, prefix + "rank " + std::to_string(*id) +
                                       " is named twice, or is not one of the " +
                                       std::to_string(parent->size) + " ranks of the communicator");
    }
    if (ids[subCommRankId] != parent->rank) {
        return refuse(HCCL_E_PARA, prefix + "rankIds has rank " + std::to_string(ids[subCommRankId]) +
                                       " at the place " + std::to_string(subCommRankId) +
                                       ", but this is rank " + std::to_string(parent->rank));
    }
    if (rankNum == 1) return create(-1, 1, 0, settings, subComm, function);
    const int fd = subgroup_file(*parent, ids, subCommId);
    if (fd < 0) {
        return refuse(HCCL_E_TIMEOUT, prefix + "rank " + std::to_string(ids[0]) +
                                          " of the communicator did not come to open the group");
    }
    return create(fd, rankNum, subCommRankId, settings, subComm, function);
}
