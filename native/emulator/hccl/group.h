// HcclGroupStart and HcclGroupEnd: between them nothing starts.
#pragma once

#include <memory>
#include <vector>

#include "communicator.h"
#include "exchange.h"
#include "messages.h"

namespace npu::emulator::hccl {

/// True between HcclGroupStart and the matching HcclGroupEnd of this thread.
bool in_group();

/// Puts a collective on its stream, at the end of this thread's group if it is in one.
HcclResult submit(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream);

/// The same for messages; those of one group, communicator and stream progress together.
HcclResult submit(const char* function, std::shared_ptr<Communicator> communicator,
                  std::vector<Transfer> transfers, aclrtStream stream);

}  // namespace npu::emulator::hccl
