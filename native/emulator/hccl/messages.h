// Messages between two ranks: sends and receives that progress together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "communicator.h"

namespace npu::emulator::hccl {

struct Transfer {
    bool send;
    void* buffer;
    uint64_t count;
    HcclDataType type;
    uint32_t peer;
};

/// Puts transfers that progress together on the stream: in their order for each peer and direction, and none
/// waits for another pair. A send whose receiver is late goes on after a while with a copy, so that two ranks
/// that both send first do not wait for ever.
HcclResult enqueue(const char* function, std::shared_ptr<Communicator> communicator,
                   std::vector<Transfer> transfers, aclrtStream stream);

}  // namespace npu::emulator::hccl
