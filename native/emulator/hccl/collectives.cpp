// HCCL's collectives: arguments are checked at the call, then the work goes on the stream.
#include <string>
#include <utility>
#include <vector>

#include "communicator.h"
#include "exchange.h"
#include "group.h"
#include "messages.h"

namespace npu::emulator::hccl {
namespace {

/// One call: its checks, then its request.
class Call {
  public:
    Call(const char* function, Kind kind, HcclComm comm) : communicator_(find(comm, function)) {
        request_.function = function;
        request_.kind = kind;
        if (!communicator_) code_ = HCCL_E_PARA;
        if (ok() && communicator_->suspended)
            error(HCCL_E_SUSPENDING, "the communicator is suspended; call HcclCommResume first");
    }

    Call& root(uint32_t rank) {
        request_.root = rank;
        return peer(rank, "root");
    }

    Call& peer(uint32_t rank, const char* what) {
        if (ok() && rank >= communicator_->size)
            error(HCCL_E_PARA, std::string(what) + " " + std::to_string(rank) +
                                   " is not a rank of the group of " + std::to_string(communicator_->size));
        return *this;
    }

    Call& type(HcclDataType type) {
        request_.type = type;
        if (ok() && element_size(type) == 0)
            error(HCCL_E_PARA, "the data type " + std::to_string(type) + " is not HCCL's");
        return *this;
    }

    Call& reduction(HcclReduceOp op) {
        request_.op = op;
        if (ok() && op > HCCL_REDUCE_MIN)
            error(HCCL_E_PARA, "the reduction " + std::to_string(op) + " is not HCCL's");
        if (ok() && !Reducer::supports(request_.type))
            error(HCCL_E_NOT_SUPPORT, std::string("no reduction of ") + element_name(request_.type) +
                                          "; cast it to a type that HCCL reduces");
        return *this;
    }

    Call& same_type(HcclDataType other) {
        if (ok() && other != request_.type)
            error(HCCL_E_PARA, std::string("sends ") + element_name(request_.type) + " and receives " +
                                   element_name(other));
        return *this;
    }

    Call& same_count(uint64_t sent, uint64_t received) {
        if (ok() && sent != received)
            error(HCCL_E_PARA, "sends " + std::to_string(sent) + " elements to each rank and receives " +
                                   std::to_string(received));
        return *this;
    }

    /// `size` of an array of 64-bit counts or places; copied, since it may live on the caller's stack.
    std::vector<uint64_t> array(const void* from, const char* what) {
        if (ok() && from == nullptr) error(HCCL_E_PTR, std::string(what) + " is null");
        if (!ok()) return {};
        auto* values = static_cast<const uint64_t*>(from);
        return {values, values + communicator_->size};
    }

    Call& buffers(const void* send, void* receive, uint64_t count, bool sends = true, bool receives = true) {
        request_.send = send;
        request_.receive = receive;
        request_.count = count;
        if (ok() && count > 0 && sends && send == nullptr) error(HCCL_E_PTR, "the send buffer is null");
        if (ok() && count > 0 && receives && receive == nullptr)
            error(HCCL_E_PTR, "the receive buffer is null");
        return *this;
    }

    bool ok() const { return code_ == HCCL_SUCCESS; }
    bool is(uint32_t rank) const { return ok() && communicator_->rank == rank; }
    uint32_t size() const { return communicator_->size; }
    uint32_t rank() const { return communicator_->rank; }
    Request& request() { return request_; }
    HcclResult error(HcclResult code, const std::string& sentence) {
        return code_ = refuse(code, std::string(request_.function) + ": " + sentence);
    }

    HcclResult run(aclrtStream stream) {
        return ok() ? submit(std::move(communicator_), std::move(request_), stream) : code_;
    }
    HcclResult run(std::vector<Transfer> transfers, aclrtStream stream) {
        return ok() ? submit(request_.function, std::move(communicator_), std::move(transfers), stream)
                    : code_;
    }

  private:
    std::shared_ptr<Communicator> communicator_;
    HcclResult code_ = HCCL_SUCCESS;
    Request request_{};
};

}  // namespace
}  // namespace npu::emulator::hccl

using namespace npu::emulator::hccl;

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
    return Call("HcclAllReduce", Kind::all_reduce, comm)
        .type(dataType)
        .reduction(op)
        .buffers(sendBuf, recvBuf, count)
        .run(stream);
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
    Call call("HcclReduce", Kind::reduce, comm);
    call.type(dataType).reduction(op).root(root);
    return call.buffers(sendBuf, recvBuf, count, true, call.is(root)).run(stream);
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
    return Call("HcclBroadcast", Kind::broadcast, comm)
        .type(dataType)
        .root(root)
        .buffers(buf, buf, count)
        .run(stream);
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
    return Call("HcclBarrier", Kind::barrier, comm).run(stream);
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                             HcclReduceOp op, HcclComm comm, aclrtStream stream) {
    return Call("HcclReduceScatter", Kind::reduce_scatter, comm)
        .type(dataType)
        .reduction(op)
        .buffers(sendBuf, recvBuf, recvCount)
        .run(stream);
}

HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
    Call call("HcclReduceScatterV", Kind::reduce_scatter_v, comm);
    call.type(dataType).reduction(op).buffers(sendBuf, recvBuf, 0);
    Request& request = call.request();
    request.send_counts = call.array(sendCounts, "sendCounts");
    request.send_displs = call.array(sendDispls, "sendDispls");
    request.receive_counts = {recvCount};
    return call.run(stream);
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
    Call call("HcclScatter", Kind::scatter, comm);
    call.type(dataType).root(root);
    return call.buffers(sendBuf, recvBuf, recvCount, call.is(root)).run(stream);
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                         HcclComm comm, aclrtStream stream) {
    return Call("HcclAllGather", Kind::all_gather, comm)
        .type(dataType)
        .buffers(sendBuf, recvBuf, sendCount)
        .run(stream);
}

HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                          const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
    Call call("HcclAllGatherV", Kind::all_gather_v, comm);
    call.type(dataType).buffers(sendBuf, recvBuf, 0);
    Request& request = call.request();
    request.send_counts = {sendCount};
    request.receive_counts = call.array(recvCounts, "recvCounts");
    request.receive_displs = call.array(recvDispls, "recvDispls");
    return call.run(stream);
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    return Call("HcclAlltoAll", Kind::all_to_all, comm)
        .type(sendType)
        .same_type(recvType)
        .same_count(sendCount, recvCount)
        .buffers(sendBuf, const_cast<void*>(recvBuf), sendCount)
        .run(stream);
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                         HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                         const void* rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    Call call("HcclAlltoAllV", Kind::all_to_all_v, comm);
    call.type(sendType).same_type(recvType).buffers(sendBuf, const_cast<void*>(recvBuf), 0);
    Request& request = call.request();
    request.send_counts = call.array(sendCounts, "sendCounts");
    request.send_displs = call.array(sdispls, "sdispls");
    request.receive_counts = call.array(recvCounts, "recvCounts");
    request.receive_displs = call.array(rdispls, "rdispls");
    return call.run(stream);
}

/// sendCountMatrix: element [i * ranks + j] is what rank i sends to rank j; blocks lie one after another.
HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType,
                          const void* recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    Call call("HcclAlltoAllVC", Kind::all_to_all_vc, comm);
    call.type(sendType).same_type(recvType).buffers(sendBuf, const_cast<void*>(recvBuf), 0);
    if (call.ok() && sendCountMatrix == nullptr) call.error(HCCL_E_PTR, "sendCountMatrix is null");
    if (!call.ok()) return call.run(stream);
    auto* matrix = static_cast<const uint64_t*>(sendCountMatrix);
    Request& request = call.request();
    uint64_t sent = 0, received = 0;
    for (uint32_t peer = 0; peer < call.size(); ++peer) {
        request.send_counts.push_back(matrix[call.rank() * call.size() + peer]);
        request.receive_counts.push_back(matrix[peer * call.size() + call.rank()]);
        request.send_displs.push_back(std::exchange(sent, sent + request.send_counts.back()));
        request.receive_displs.push_back(std::exchange(received, received + request.receive_counts.back()));
    }
    return call.run(stream);
}

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
    Call call("HcclSend", Kind::barrier, comm);
    call.type(dataType).peer(destRank, "destRank").buffers(sendBuf, nullptr, count, true, false);
    if (call.is(destRank) && !in_group())
        call.error(HCCL_E_PARA, "a rank cannot send to itself; use HcclBatchSendRecv for a pair");
    return call.run({{true, sendBuf, count, dataType, destRank}}, stream);
}

HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
    Call call("HcclRecv", Kind::barrier, comm);
    call.type(dataType).peer(srcRank, "srcRank").buffers(nullptr, recvBuf, count, false, true);
    if (call.is(srcRank) && !in_group())
        call.error(HCCL_E_PARA, "a rank cannot receive from itself; use HcclBatchSendRecv for a pair");
    return call.run({{false, recvBuf, count, dataType, srcRank}}, stream);
}

/// Its items progress together.
HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                             aclrtStream stream) {
    Call call("HcclBatchSendRecv", Kind::barrier, comm);
    if (call.ok() && sendRecvInfo == nullptr && itemNum > 0) call.error(HCCL_E_PTR, "sendRecvInfo is null");
    std::vector<Transfer> transfers;
    for (uint32_t i = 0; call.ok() && i < itemNum; ++i) {
        const HcclSendRecvItem& item = sendRecvInfo[i];
        const bool send = item.sendRecvType == HCCL_SEND;
        if (!send && item.sendRecvType != HCCL_RECV)
            call.error(HCCL_E_PARA, "item " + std::to_string(i) + " is neither a send nor a receive");
        call.type(item.dataType).peer(item.remoteRank, "remoteRank").buffers(item.buf, item.buf, item.count);
        transfers.push_back({send, item.buf, item.count, item.dataType, item.remoteRank});
    }
    return call.run(std::move(transfers), stream);
}
