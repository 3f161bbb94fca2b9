// Each instruction set's table of tile bodies.
#pragma once

#include <array>

#include "kernels/tile.h"

namespace npu::emulator::tile {

inline constexpr std::array kTypes{c10::kFloat, c10::kHalf, c10::kBFloat16, c10::kInt};

/// An operator's place in the switch of a chain; those on integers alone have none.
enum class Code {
    abs,
    neg,
    sqrt,
    rsqrt,
    reciprocal,
    square,
    relu,
    add,
    sub,
    mul,
    div,
    maximum,
    minimum,
    none
};

struct Row {
    const char* type;
    Code code;
    std::size_t operands;
    std::array<Body, kTypes.size()>
        bodies;  ///< all operands and the result of one type, in the order of kTypes
};

struct Bodies {
    std::span<const Row> rows;
    /// Cast from kTypes[i] to kTypes[j]; null on the diagonal.
    std::array<std::array<Body, kTypes.size()>, kTypes.size()> casts;
    Chain chain;
};

namespace plain {
const Bodies& bodies();
}
namespace avx2 {
const Bodies& bodies();
}
namespace avx512 {
const Bodies& bodies();
}

}  // namespace npu::emulator::tile
