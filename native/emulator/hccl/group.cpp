#include "group.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace npu::emulator::hccl {
namespace {

struct Pending {
    std::shared_ptr<Communicator> communicator;
    aclrtStream stream;
    const char* function;
    std::vector<Transfer> transfers;         ///< of messages
    std::function<HcclResult()> collective;  ///< else
};

thread_local uint32_t depth = 0;
thread_local std::vector<Pending> pending;

/// A send to oneself must meet its receive, both in one group.
HcclResult balanced(const Pending& one) {
    int64_t own = 0;
    for (const Transfer& transfer : one.transfers) {
        if (transfer.peer == one.communicator->rank) own += transfer.send ? 1 : -1;
    }
    if (own == 0) return HCCL_SUCCESS;
    return refuse(HCCL_E_PARA,
                  std::string(one.function) +
                      ": the messages of the rank to itself do not pair up, a send with a receive");
}

HcclResult start(Pending& one) {
    if (one.collective) return one.collective();
    if (const HcclResult code = balanced(one); code != HCCL_SUCCESS) return code;
    return enqueue(one.function, std::move(one.communicator), std::move(one.transfers), one.stream);
}

}  // namespace

bool in_group() { return depth > 0; }

HcclResult submit(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream) {
    if (!in_group()) return enqueue(std::move(communicator), std::move(request), stream);
    const char* function = request.function;
    pending.push_back({communicator, stream, function, {}, [communicator, request, stream] {
                           return enqueue(communicator, request, stream);
                       }});
    return HCCL_SUCCESS;
}

HcclResult submit(const char* function, std::shared_ptr<Communicator> communicator,
                  std::vector<Transfer> transfers, aclrtStream stream) {
    Pending one{std::move(communicator), stream, function, std::move(transfers), {}};
    if (!in_group()) return start(one);
    const auto same = std::ranges::find_if(pending, [&](const Pending& other) {
        return !other.collective && other.communicator == one.communicator && other.stream == stream;
    });
    if (same == pending.end())
        pending.push_back(std::move(one));
    else
        std::ranges::move(one.transfers, std::back_inserter(same->transfers));
    return HCCL_SUCCESS;
}

}  // namespace npu::emulator::hccl

using namespace npu::emulator::hccl;

HcclResult HcclGroupStart() {
    ++depth;
    return HCCL_SUCCESS;
}

HcclResult HcclGroupEnd() {
    if (depth == 0)
        return refuse(HCCL_E_PARA, "HcclGroupEnd: this thread is in no group; call HcclGroupStart first");
    if (--depth > 0) return HCCL_SUCCESS;
    HcclResult first = HCCL_SUCCESS;
    for (Pending& one : std::exchange(pending, {})) {
        const HcclResult code = first == HCCL_SUCCESS ? start(one) : first;
        if (first == HCCL_SUCCESS) first = code;
    }
    return first;
}

HcclResult HcclGroupStatusGet(bool* isGroup) {
    if (isGroup == nullptr) return refuse(HCCL_E_PTR, "HcclGroupStatusGet: the output is null");
    *isGroup = in_group();
    return HCCL_SUCCESS;
}
