// Making, naming and ending communicators.
#include "communicator.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "cann/error_names.h"
#include "meeting.h"
#include "runtime/launch.h"

namespace npu::emulator::hccl {

namespace {

struct Table {
    std::mutex mutex;
    std::unordered_map<HcclComm, std::shared_ptr<Communicator>> communicators;
};

Table& table() {
    static Table* all = new Table;  // outlives static destruction: torch destroys communicators late
    return *all;
}

std::atomic<uint64_t> next_number{0};
std::atomic<int32_t> deterministic{0};

}  // namespace

HcclResult refuse(HcclResult code, const std::string& sentence) {
    set_recent_sentence(std::string(npu::cann::hccl_result_name(code)) + " (" + std::to_string(code) +
                        "): " + sentence);
    return code;
}

std::shared_ptr<Communicator> find(HcclComm handle, const char* function) {
    std::lock_guard lock(table().mutex);
    const auto found = table().communicators.find(handle);
    if (found != table().communicators.end()) return found->second;
    refuse(HCCL_E_PARA,
           std::string(function) + ": the communicator was destroyed or never created by this process");
    return nullptr;
}

HcclComm publish(std::shared_ptr<Communicator> communicator) {
    const HcclComm handle = communicator.get();
    if (communicator->name.empty()) communicator->name = "hccl_emulated_" + std::to_string(++next_number);
    std::lock_guard lock(table().mutex);
    table().communicators.emplace(handle, std::move(communicator));
    return handle;
}

namespace {

/// `fd` (taken) holds the group's segment; -1 for a group of one rank.
HcclResult create(int fd, uint32_t ranks, uint32_t rank, const std::string& name, HcclComm* handle,
                  const char* function) {
    auto communicator = std::make_shared<Communicator>();
    communicator->name = name;
    communicator->rank = rank;
    communicator->size = ranks;
    communicator->sent.resize(ranks);
    communicator->received.resize(ranks);
    if (ranks > 1) {
        const HcclResult code = join(fd, ranks, rank, function, communicator.get());
        if (code != HCCL_SUCCESS) return code;
    }
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

HcclResult read_name(const HcclCommConfig* config, std::string* name, const char* function) {
    if (config == nullptr) return HCCL_SUCCESS;
    ConfigHeader header;
    std::memcpy(&header, config, sizeof header);
    if (header.magic != HCCL_COMM_CONFIG_MAGIC_WORD || header.size < sizeof header) {
        return refuse(HCCL_E_PARA,
                      std::string(function) +
                          ": the configuration was not initialised; call HcclCommConfigInit on it first");
    }
    // Clients of old releases hand down 32 bytes: up to the name, without it.
    constexpr size_t begin = offsetof(HcclCommConfig, hcclCommName);
    if (header.size < begin + sizeof config->hcclCommName) return HCCL_SUCCESS;
    const char* text = config->hcclCommName;
    name->assign(text, strnlen(text, sizeof config->hcclCommName));
    return HCCL_SUCCESS;
}

/// Ranks in a rank table (JSON): each has one "rank_id".
HcclResult count_ranks(const char* path, uint32_t* ranks, const char* function) {
    std::ifstream file(path == nullptr ? "" : path);
    if (!file) {
        return refuse(HCCL_E_OPEN_FILE_FAILURE, std::string(function) + ": the rank table " +
                                                    (path == nullptr ? "(null)" : path) + " cannot be read");
    }
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    constexpr std::string_view key = "\"rank_id\"";
    *ranks = 0;
    for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + key.size()))
        ++*ranks;
    if (*ranks > 0) return HCCL_SUCCESS;
    return refuse(HCCL_E_PARA, std::string(function) + ": the rank table " + path + " names no rank_id");
}

HcclResult init_by_root(uint32_t ranks, const HcclRootInfo* root, uint32_t rank, const std::string& name,
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
                          ", which made rootInfo, has ended, is on another machine or another "
                          "user's");
    }
    const HcclResult code = create(fd, ranks, rank, name, comm, function);
    leave_meeting_place(file);
    return code;
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
    std::string name;
    if (const HcclResult code = read_name(config, &name, function); code != HCCL_SUCCESS) return code;
    return init_by_root(nRanks, rootInfo, rank, name, comm, function);
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm) {
    constexpr const char* function = "HcclCommInitClusterInfoConfig";
    std::string name;
    uint32_t ranks = 0;
    if (const HcclResult code = read_name(config, &name, function); code != HCCL_SUCCESS) return code;
    if (const HcclResult code = count_ranks(clusterInfo, &ranks, function); code != HCCL_SUCCESS) return code;
    if (const HcclResult code = check_ranks(ranks, rank, comm, function); code != HCCL_SUCCESS) return code;
    if (ranks == 1) return create(-1, ranks, rank, name, comm, function);
    const TableMeeting meeting(clusterInfo, ranks);
    if (meeting.fd() < 0) {
        return refuse(HCCL_E_SYSCALL, std::string(function) + ": the ranks of " + clusterInfo +
                                          " cannot meet in /dev/shm: " + std::strerror(errno));
    }
    return create(meeting.fd(), ranks, rank, name, comm, function);
}

HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
    return HcclCommInitClusterInfoConfig(clusterInfo, rank, nullptr, comm);
}

/// comms: ndev handles, one for each device of this process.
HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
    constexpr const char* function = "HcclCommInitAll";
    if (devices == nullptr) return refuse(HCCL_E_PTR, std::string(function) + ": devices is null");
    if (const HcclResult code = check_ranks(ndev, 0, comms, function); code != HCCL_SUCCESS) return code;
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
    for (uint32_t rank = 0; rank < ndev; ++rank) {
        if (codes[rank] == HCCL_SUCCESS) continue;
        set_recent_sentence(sentences[rank]);
        return codes[rank];
    }
    return HCCL_SUCCESS;
}

/// rankIds: ranks of `comm` that form the group. A rank outside of it passes no ids and gets no communicator.
HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
    constexpr const char* function = "HcclCreateSubCommConfig";
    if (comm == nullptr || subComm == nullptr)
        return refuse(HCCL_E_PTR, std::string(function) + ": a pointer is null");
    const auto parent = find(*comm, function);
    if (!parent) return HCCL_E_PARA;
    if (rankIds == nullptr && subCommRankId == UINT32_MAX) {
        *subComm = nullptr;
        return HCCL_SUCCESS;
    }
    if (rankIds == nullptr ||
        std::any_of(rankIds, rankIds + rankNum, [&](uint32_t id) { return id >= parent->size; })) {
        return refuse(HCCL_E_PARA, std::string(function) + ": a rank id is not one of the " +
                                       std::to_string(parent->size) + " ranks of the communicator");
    }
    std::string name;
    if (const HcclResult code = read_name(config, &name, function); code != HCCL_SUCCESS) return code;
    if (const HcclResult code = check_ranks(rankNum, subCommRankId, subComm, function); code != HCCL_SUCCESS)
        return code;
    if (rankNum == 1) return create(-1, 1, 0, name, subComm, function);
    const int fd = subgroup_file(*parent, {rankIds, rankIds + rankNum}, subCommId);
    if (fd < 0) {
        return refuse(HCCL_E_TIMEOUT, std::string(function) + ": rank " + std::to_string(rankIds[0]) +
                                          " of the communicator did not come to open the group");
    }
    return create(fd, rankNum, subCommRankId, name, subComm, function);
}

HcclResult HcclCommDestroy(HcclComm comm) {
    std::shared_ptr<Communicator> communicator;
    {
        std::lock_guard lock(table().mutex);
        const auto found = table().communicators.find(comm);
        if (found != table().communicators.end()) {
            communicator = std::move(found->second);
            table().communicators.erase(found);
        }
    }
    if (!communicator)
        return refuse(HCCL_E_PARA,
                      "HcclCommDestroy: the communicator was destroyed already or never created");
    if (communicator->segment) communicator->settle(5000);
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
    const auto communicator = find(comm, "HcclGetRankSize");
    if (!communicator) return HCCL_E_PARA;
    if (rankSize == nullptr) return refuse(HCCL_E_PTR, "HcclGetRankSize: rankSize is null");
    *rankSize = communicator->size;
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
    const auto communicator = find(comm, "HcclGetRankId");
    if (!communicator) return HCCL_E_PARA;
    if (rank == nullptr) return refuse(HCCL_E_PTR, "HcclGetRankId: rank is null");
    *rank = communicator->rank;
    return HCCL_SUCCESS;
}

/// commName: COMM_NAME_MAX_LENGTH bytes.
HcclResult HcclGetCommName(HcclComm comm, char* commName) {
    const auto communicator = find(comm, "HcclGetCommName");
    if (!communicator) return HCCL_E_PARA;
    if (commName == nullptr) return refuse(HCCL_E_PTR, "HcclGetCommName: commName is null");
    std::snprintf(commName, COMM_NAME_MAX_LENGTH, "%s", communicator->name.c_str());
    return HCCL_SUCCESS;
}

HcclResult HcclCommGetHandleWithName(const char* commName, HcclComm* comm) {
    if (commName == nullptr || comm == nullptr)
        return refuse(HCCL_E_PTR, "HcclCommGetHandleWithName: a pointer is null");
    std::lock_guard lock(table().mutex);
    for (const auto& [handle, communicator] : table().communicators) {
        if (communicator->name != commName) continue;
        *comm = handle;
        return HCCL_SUCCESS;
    }
    return refuse(HCCL_E_NOT_FOUND,
                  std::string("HcclCommGetHandleWithName: there is no communicator ") + commName);
}

/// What the first collective of this rank that failed found.
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
    const auto communicator = find(comm, "HcclGetCommAsyncError");
    if (!communicator) return HCCL_E_PARA;
    if (asyncError == nullptr) return refuse(HCCL_E_PTR, "HcclGetCommAsyncError: asyncError is null");
    *asyncError = communicator->async_error;
    return HCCL_SUCCESS;
}

const char* HcclGetErrorString(HcclResult code) { return npu::cann::hccl_result_name(code); }

/// How many of HcclCommConfig's fields are read.
uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
    if (config != HCCL_DETERMINISTIC)
        return refuse(HCCL_E_PARA, "HcclSetConfig: the option is not one of HcclConfig");
    deterministic = configValue.value;
    return HCCL_SUCCESS;
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
    if (config != HCCL_DETERMINISTIC)
        return refuse(HCCL_E_PARA, "HcclGetConfig: the option is not one of HcclConfig");
    if (configValue == nullptr) return refuse(HCCL_E_PTR, "HcclGetConfig: configValue is null");
    configValue->value = deterministic;
    return HCCL_SUCCESS;
}
