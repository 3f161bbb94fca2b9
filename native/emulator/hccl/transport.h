// Reading another rank's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "segment.h"

namespace npu::emulator::hccl {

struct Communicator;

/// Reads `bytes` of a peer's memory; `inlined` is where its small payloads lie. Throws TaskError when the
/// peer is gone.
void read_from(Communicator& communicator, uint32_t peer, const Source& source, const std::byte* inlined,
               uint64_t offset, void* to, uint64_t bytes, const char* function);

/// A copy of this rank's memory that peers can open, where they cannot read the original. Closes with its
/// owner.
class SharedCopy {
  public:
    SharedCopy(const void* from, uint64_t bytes);
    SharedCopy(const SharedCopy&) = delete;
    SharedCopy& operator=(const SharedCopy&) = delete;
    ~SharedCopy();
    void write(const void* from, uint64_t bytes, uint64_t offset);
    const SharedFile& file() const { return file_; }

  private:
    SharedFile file_;
};

}  // namespace npu::emulator::hccl
