// Communicators: a rank's membership in a group. So far groups have one rank; the collectives below are
// written against this type, so that a transport between processes is added here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cann/hccl.h"

namespace npu::emulator::hccl {

struct Communicator {
    std::string name;
    uint32_t rank = 0;
    uint32_t size = 1;
};

/// The communicator of a live handle, or nullptr after setting the error's sentence.
std::shared_ptr<Communicator> find(HcclComm handle, const char* function);

/// Sets the calling thread's sentence (aclGetRecentErrMsg) and returns the code.
HcclResult refuse(HcclResult code, const std::string& sentence);

/// Bytes of one element, 0 for a type that is not HCCL's.
uint64_t element_size(HcclDataType type);

/// True between HcclGroupStart and the matching HcclGroupEnd of this thread.
bool in_group();

}  // namespace npu::emulator::hccl
