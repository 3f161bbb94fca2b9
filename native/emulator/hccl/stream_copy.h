// Copies past the cache, for results too large to stay in it.
#pragma once

#include <cstddef>

namespace npu::emulator::hccl {

/// From this size on, what is written would be evicted before anyone reads it. Stores past the cache then
/// save reading each line first: a third of the memory traffic of a copy.
constexpr std::size_t kPastCacheBytes = 8 * 1024 * 1024;

/// As memcpy. Other threads and processes see it after end_of_stream().
void stream_copy(void* to, const void* from, std::size_t bytes);
void end_of_stream();

/// As memcpy for non-overlapping parts, past the cache where they are large.
void copy_large(void* to, const void* from, std::size_t bytes);

}  // namespace npu::emulator::hccl
