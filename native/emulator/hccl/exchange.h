// One collective on one rank: show what one has, wait for the others, read from them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "communicator.h"

namespace npu::emulator::hccl {

/// Arguments of a collective, in elements; the arrays only where ranks differ.
struct Request {
    const char* function;
    Kind kind;
    const void* send = nullptr;
    void* receive = nullptr;
    uint64_t count = 0;  ///< per rank, as the collective counts
    HcclDataType type = HCCL_DATA_TYPE_INT8;
    HcclReduceOp op = HCCL_REDUCE_SUM;
    uint32_t root = 0;
    std::vector<uint64_t> send_counts, send_displs, receive_counts, receive_displs;
};

/// Puts it on the stream; its number among the communicator's calls is fixed here.
HcclResult enqueue(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream);

/// Runs the calls of a communicator in their order. A call that never runs (its device failed) breaks the
/// rest.
class Turn {
  public:
    Turn(std::shared_ptr<Communicator> communicator);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();
    void wait(const char* function);  ///< throws TaskError when a call before this one never ran
    uint64_t number() const { return number_; }
    Communicator& communicator() { return *communicator_; }
    void done();

  private:
    std::shared_ptr<Communicator> communicator_;
    uint64_t number_;
    bool done_ = false;
};

}  // namespace npu::emulator::hccl
