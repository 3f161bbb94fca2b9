#include "kernels/tile.h"

#include <ATen/Version.h>

#include <algorithm>
#include <cstring>

#include "kernels/tile_table.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace npu::emulator::tile {
namespace {

const Bodies& chosen() {
    static const Bodies& bodies = []() -> const Bodies& {
#if defined(__x86_64__)
        const std::string set = at::get_cpu_capability();  // ATEN_CPU_CAPABILITY may have lowered it
        if (set == "AVX512") return avx512::bodies();
        if (set == "AVX2") return avx2::bodies();
#endif
        return plain::bodies();
    }();
    return bodies;
}

/// kTypes.size(): no body computes in that type.
std::size_t index_of(c10::ScalarType type) {
    return static_cast<std::size_t>(std::ranges::find(kTypes, type) - kTypes.begin());
}

const Row* row_of(std::string_view type) {
    const auto row = std::ranges::find_if(chosen().rows, [&](const Row& each) { return type == each.type; });
    return row == chosen().rows.end() ? nullptr : &*row;
}

}  // namespace

Body find(std::string_view type, std::span<const c10::ScalarType> operands, c10::ScalarType out) {
    const std::size_t to = index_of(out);
    if (to == kTypes.size() || operands.empty()) return nullptr;
    if (type == "Cast") {
        const std::size_t from = index_of(operands[0]);
        return operands.size() != 1 || from == kTypes.size() ? nullptr : chosen().casts[from][to];
    }
    const Row* row = row_of(type);
    const bool fits = row != nullptr && row->operands == operands.size() &&
                      std::ranges::all_of(operands, [&](c10::ScalarType each) { return each == out; });
    return fits ? row->bodies[to] : nullptr;
}

Chain chain() { return chosen().chain; }

int link_code(std::string_view type) {
    const Row* row = row_of(type);
    return row == nullptr || row->code == Code::none ? -1 : static_cast<int>(row->code);
}

void stream(void* to, const void* from, int64_t bytes) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
#if defined(__x86_64__)
    constexpr int64_t kLine = sizeof(__m128i);
    const auto ragged = static_cast<int64_t>(-reinterpret_cast<std::uintptr_t>(target) % kLine);
    const int64_t head = std::min(ragged, bytes);
    std::memcpy(target, source, head);
    int64_t i = head;
    for (; i + kLine <= bytes; i += kLine)
        _mm_stream_si128(reinterpret_cast<__m128i*>(target + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
    std::memcpy(target + i, source + i, bytes - i);
#else
    std::memcpy(target, source, bytes);
#endif
}

void fence() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

}  // namespace npu::emulator::tile
