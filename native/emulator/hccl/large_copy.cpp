#include "large_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace npu::emulator::hccl {

#if defined(__x86_64__)

namespace {
constexpr std::size_t kPastCacheBytes = 8 * 1024 * 1024;
constexpr std::size_t kLine = 64;  // stores of a whole line leave the core together
}  // namespace

void large_copy(void* to, const void* from, std::size_t bytes) {
    auto* target = static_cast<std::byte*>(to);
    auto* source = static_cast<const std::byte*>(from);
    if (bytes < kPastCacheBytes) {
        std::memcpy(target, source, bytes);
        return;
    }
    std::size_t at = (kLine - reinterpret_cast<uintptr_t>(target) % kLine) % kLine;
    std::memcpy(target, source, at);
    for (; at + kLine <= bytes; at += kLine) {
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
    _mm_sfence();  // such stores keep no order: nobody may be told of them before they are done
}

#else  // the C library knows the machine

void large_copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace npu::emulator::hccl
