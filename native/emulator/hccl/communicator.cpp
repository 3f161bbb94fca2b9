// Live communicators: finding, naming and ending them.
#include "communicator.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "cann/error_names.h"
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

namespace {
int32_t current_device() {
    int32_t device = -1;
    return aclrtGetDevice(&device) == ACL_SUCCESS ? device : -1;
}
}  // namespace

HcclComm publish(std::shared_ptr<Communicator> communicator) {
    const HcclComm handle = communicator.get();
    communicator->device = current_device();
    if (communicator->name.empty()) communicator->name = "hccl_emulated_" + std::to_string(++next_number);
    std::lock_guard lock(table().mutex);
    table().communicators.emplace(handle, std::move(communicator));
    return handle;
}

std::shared_ptr<Communicator> find_named(const std::string& name) {
    const int32_t device = current_device();
    std::shared_ptr<Communicator> found;
    std::lock_guard lock(table().mutex);
    for (const auto& [handle, communicator] : table().communicators) {
        if (communicator->name != name) continue;
        if (!found || communicator->device == device) found = communicator;
    }
    return found;
}

std::shared_ptr<Communicator> forget(HcclComm handle) {
    std::lock_guard lock(table().mutex);
    const auto found = table().communicators.extract(handle);
    return found.empty() ? nullptr : found.mapped();
}

}  // namespace npu::emulator::hccl

using namespace npu::emulator;
using namespace npu::emulator::hccl;

/// Local, and at once: work of the communicator that is on streams still runs to its end.
HcclResult HcclCommDestroy(HcclComm comm) {
    const auto communicator = forget(comm);
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
    if (const auto communicator = find_named(commName)) {
        *comm = communicator.get();
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
