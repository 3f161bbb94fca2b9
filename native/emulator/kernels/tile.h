// Tile bodies: elementwise operators as functions on dense stretches of memory, for the fused regions of the
// graph engine. A body is the loop of ATen's own row without the tensors around it, made of the same
// functions of at::vec::Vectorized for the instruction set that ATen chose, so that it computes what the row
// computes.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <string_view>

#pragma GCC visibility push(default)  // used by ../ge
namespace npu::emulator::tile {

struct Operand {
    const void* data = nullptr;
    bool single = false;  ///< one element that stands opposite every element of the others
};

/// Computes n elements. `out` may be the memory of an operand that is not single.
using Body = void (*)(void* out, const Operand* operands, int64_t n);

/// The body of a GE operator without attributes (and of Cast) on these types, or null: its row computes it.
Body find(std::string_view type, std::span<const c10::ScalarType> operands, c10::ScalarType out);

/// One operator of a chain: takes the value that comes along, and a single element where it has two operands.
struct Link {
    int code = -1;  ///< link_code()
    const float* element = nullptr;
    bool element_first = false;
};
/// The operators one after the other on each of n floats, which stay in registers in between.
using Chain = void (*)(float* out, const float* in, const Link* links, std::size_t count, int64_t n);
Chain chain();
/// Of a GE operator on floats that can be a link; -1: of others.
int link_code(std::string_view type);

/// Copies past the caches, for results that are larger than they are. Ordered by fence().
void stream(void* to, const void* from, int64_t bytes);
void fence();

}  // namespace npu::emulator::tile
#pragma GCC visibility pop
