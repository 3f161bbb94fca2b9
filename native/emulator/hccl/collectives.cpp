// Collectives of a group of one rank: each one copies what the rank would have sent to itself, in stream
// order.
#include <cstring>
#include <vector>

#include "communicator.h"
#include "runtime/launch.h"

namespace npu::emulator::hccl {

uint64_t element_size(HcclDataType type) {
    switch (type) {
        case HCCL_DATA_TYPE_INT8:
        case HCCL_DATA_TYPE_UINT8:
        case HCCL_DATA_TYPE_HIF8:
        case HCCL_DATA_TYPE_FP8E4M3:
        case HCCL_DATA_TYPE_FP8E5M2:
        case HCCL_DATA_TYPE_FP8E8M0:
            return 1;
        case HCCL_DATA_TYPE_INT16:
        case HCCL_DATA_TYPE_UINT16:
        case HCCL_DATA_TYPE_FP16:
        case HCCL_DATA_TYPE_BFP16:
            return 2;
        case HCCL_DATA_TYPE_INT32:
        case HCCL_DATA_TYPE_UINT32:
        case HCCL_DATA_TYPE_FP32:
            return 4;
        case HCCL_DATA_TYPE_INT64:
        case HCCL_DATA_TYPE_UINT64:
        case HCCL_DATA_TYPE_FP64:
            return 8;
        case HCCL_DATA_TYPE_INT128:
            return 16;
        default:
            return 0;
    }
}

namespace {

/// `count` elements of a buffer from element `offset` on.
struct Part {
    const void* base;
    uint64_t count;
    uint64_t offset = 0;
};

class SelfCopy final : public Task {
  public:
    SelfCopy(const char* name, void* to, const void* from, std::size_t bytes)
        : name_(name), to_(to), from_(from), bytes_(bytes) {}
    void run() override { std::memmove(to_, from_, bytes_); }
    const char* name() const override { return name_; }
    std::size_t work() const override { return bytes_; }

  private:
    const char* name_;
    void* to_;
    const void* from_;
    std::size_t bytes_;
};

/// One call of a collective: checks come first, then the copy is put on the stream.
class Call {
  public:
    Call(const char* function, HcclComm comm) : function_(function), communicator_(find(comm, function)) {
        if (!communicator_) code_ = HCCL_E_PARA;
    }

    Call& root(uint32_t rank, const char* what = "root") {
        if (ok() && rank >= communicator_->size)
            error(HCCL_E_PARA, std::string(what) + " " + std::to_string(rank) +
                                   " is not a rank of the group of " + std::to_string(communicator_->size));
        return *this;
    }

    Call& reduction(HcclReduceOp op) {
        if (ok() && op > HCCL_REDUCE_MIN)
            error(HCCL_E_PARA, "the reduction " + std::to_string(op) + " is not HCCL's");
        return *this;
    }

    Call& pointer(const void* address, const char* what) {
        if (ok() && address == nullptr) error(HCCL_E_PTR, std::string(what) + " is null");
        return *this;
    }

    Call& same_count(uint64_t sent, uint64_t received) {
        if (ok() && sent != received)
            error(HCCL_E_PARA, "the rank sends itself " + std::to_string(sent) + " elements and expects " +
                                   std::to_string(received));
        return *this;
    }

    Call& type(HcclDataType type) {
        element_ = element_size(type);
        if (ok() && element_ == 0)
            error(HCCL_E_PARA, "the data type " + std::to_string(type) + " is not HCCL's");
        return *this;
    }

    /// Copies in stream order; a buffer onto itself needs nothing.
    HcclResult copy(const Part& to, const Part& from, aclrtStream stream) {
        if (!ok() || from.count == 0) return code_;
        pointer(to.base, "the receive buffer").pointer(from.base, "the send buffer");
        if (!ok()) return code_;
        auto* target = static_cast<std::byte*>(const_cast<void*>(to.base)) + to.offset * element_;
        const auto* source = static_cast<const std::byte*>(from.base) + from.offset * element_;
        if (target == source) return HCCL_SUCCESS;
        const aclError error =
            launch(stream, std::make_unique<SelfCopy>(function_, target, source, from.count * element_),
                   Engine::copy);
        return error == ACL_SUCCESS ? HCCL_SUCCESS : HCCL_E_RUNTIME;
    }

    /// For a collective that moves nothing on one rank.
    HcclResult nothing() const { return code_; }

    bool ok() const { return code_ == HCCL_SUCCESS; }
    HcclResult error(HcclResult code, const std::string& sentence) {
        return code_ = refuse(code, std::string(function_) + ": " + sentence);
    }

  private:
    const char* function_;
    std::shared_ptr<Communicator> communicator_;
    HcclResult code_ = HCCL_SUCCESS;
    uint64_t element_ = 0;
};

uint64_t first(const void* array) { return static_cast<const uint64_t*>(array)[0]; }

}  // namespace
}  // namespace npu::emulator::hccl

using namespace npu::emulator::hccl;

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
    return Call("HcclAllReduce", comm)
        .reduction(op)
        .type(dataType)
        .copy({recvBuf, count}, {sendBuf, count}, stream);
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
    return Call("HcclReduce", comm)
        .root(root)
        .reduction(op)
        .type(dataType)
        .copy({recvBuf, count}, {sendBuf, count}, stream);
}

HcclResult HcclBroadcast(void* buf, uint64_t, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream) {
    return Call("HcclBroadcast", comm).root(root).type(dataType).pointer(buf, "buf").nothing();
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream) { return Call("HcclBarrier", comm).nothing(); }

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                             HcclReduceOp op, HcclComm comm, aclrtStream stream) {
    return Call("HcclReduceScatter", comm)
        .reduction(op)
        .type(dataType)
        .copy({recvBuf, recvCount}, {sendBuf, recvCount}, stream);
}

HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
    Call call("HcclReduceScatterV", comm);
    call.reduction(op).type(dataType).pointer(sendCounts, "sendCounts").pointer(sendDispls, "sendDispls");
    if (!call.ok()) return call.nothing();
    return call.same_count(first(sendCounts), recvCount)
        .copy({recvBuf, recvCount}, {sendBuf, recvCount, first(sendDispls)}, stream);
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
    return Call("HcclScatter", comm)
        .root(root)
        .type(dataType)
        .copy({recvBuf, recvCount}, {sendBuf, recvCount}, stream);
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                         HcclComm comm, aclrtStream stream) {
    return Call("HcclAllGather", comm)
        .type(dataType)
        .copy({recvBuf, sendCount}, {sendBuf, sendCount}, stream);
}

HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                          const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
    Call call("HcclAllGatherV", comm);
    call.type(dataType).pointer(recvCounts, "recvCounts").pointer(recvDispls, "recvDispls");
    if (!call.ok()) return call.nothing();
    return call.same_count(sendCount, first(recvCounts))
        .copy({recvBuf, sendCount, first(recvDispls)}, {sendBuf, sendCount}, stream);
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    Call call("HcclAlltoAll", comm);
    call.type(sendType)
        .same_count(sendCount, recvCount)
        .same_count(element_size(sendType), element_size(recvType));
    return call.copy({recvBuf, recvCount}, {sendBuf, sendCount}, stream);
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                         HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                         const void* rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    Call call("HcclAlltoAllV", comm);
    call.type(sendType).same_count(element_size(sendType), element_size(recvType));
    call.pointer(sendCounts, "sendCounts").pointer(sdispls, "sdispls");
    call.pointer(recvCounts, "recvCounts").pointer(rdispls, "rdispls");
    if (!call.ok()) return call.nothing();
    return call.same_count(first(sendCounts), first(recvCounts))
        .copy({recvBuf, first(recvCounts), first(rdispls)}, {sendBuf, first(sendCounts), first(sdispls)},
              stream);
}

HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType,
                          const void* recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    Call call("HcclAlltoAllVC", comm);
    call.type(sendType).same_count(element_size(sendType), element_size(recvType));
    call.pointer(sendCountMatrix, "sendCountMatrix");
    if (!call.ok()) return call.nothing();
    return call.copy({recvBuf, first(sendCountMatrix)}, {sendBuf, first(sendCountMatrix)}, stream);
}

HcclResult HcclSend(void*, uint64_t, HcclDataType dataType, uint32_t destRank, HcclComm comm, aclrtStream) {
    Call call("HcclSend", comm);
    call.type(dataType).root(destRank, "destRank");
    return call.ok()
               ? call.error(HCCL_E_PARA, "a rank cannot send to itself; use HcclBatchSendRecv for a pair")
               : call.nothing();
}

HcclResult HcclRecv(void*, uint64_t, HcclDataType dataType, uint32_t srcRank, HcclComm comm, aclrtStream) {
    Call call("HcclRecv", comm);
    call.type(dataType).root(srcRank, "srcRank");
    return call.ok() ? call.error(HCCL_E_PARA,
                                  "a rank cannot receive from itself; use HcclBatchSendRecv for a pair")
                     : call.nothing();
}

/// The n-th send of the batch meets its n-th receive.
HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                             aclrtStream stream) {
    Call call("HcclBatchSendRecv", comm);
    call.pointer(sendRecvInfo, "sendRecvInfo");
    std::vector<HcclSendRecvItem> sends, receives;
    for (uint32_t i = 0; call.ok() && i < itemNum; ++i) {
        call.root(sendRecvInfo[i].remoteRank, "remoteRank").type(sendRecvInfo[i].dataType);
        (sendRecvInfo[i].sendRecvType == HCCL_SEND ? sends : receives).push_back(sendRecvInfo[i]);
    }
    call.same_count(sends.size(), receives.size());
    for (std::size_t i = 0; call.ok() && i < sends.size(); ++i) {
        call.type(sends[i].dataType).same_count(sends[i].count, receives[i].count);
        call.same_count(element_size(sends[i].dataType), element_size(receives[i].dataType));
        const HcclResult code =
            call.copy({receives[i].buf, receives[i].count}, {sends[i].buf, sends[i].count}, stream);
        if (code != HCCL_SUCCESS) return code;
    }
    return call.nothing();
}
