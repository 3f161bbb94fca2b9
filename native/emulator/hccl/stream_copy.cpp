#include "stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace npu::emulator::hccl {

#if defined(__x86_64__)

void stream_copy(void* to, const void* from, std::size_t bytes) {
    constexpr std::size_t line = 64;  // stores of a whole line leave the core together
    auto* target = static_cast<std::byte*>(to);
    auto* source = static_cast<const std::byte*>(from);
    const std::size_t head = std::min(bytes, (line - reinterpret_cast<uintptr_t>(target) % line) % line);
    std::memcpy(target, source, head);
    std::size_t at = head;
    for (; at + line <= bytes; at += line) {
        const auto* in = reinterpret_cast<const __m128i*>(source + at);
        auto* out = reinterpret_cast<__m128i*>(target + at);
        const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
        const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
    }
    std::memcpy(target + at, source + at, bytes - at);
}

void end_of_stream() { _mm_sfence(); }

#else  // the C library knows the machine

void stream_copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void end_of_stream() {}

#endif

void copy_large(void* to, const void* from, std::size_t bytes) {
    if (bytes < kPastCacheBytes) {
        if (bytes > 0) std::memcpy(to, from, bytes);
        return;
    }
    stream_copy(to, from, bytes);
    end_of_stream();
}

}  // namespace npu::emulator::hccl
