// The element types of buffers. Types of less than a byte take a byte each, as on JAX's side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace npu::pjrt {

/// Bytes of an element. Throws Status: PJRT has no such type (a program or a caller may give any number).
std::size_t element_size(int type);
/// As StableHLO writes it, "f32"; "type 99" for others.
std::string element_name(int type);
bool known_type(int type);

/// Bytes of a dense array. Throws Status: a negative dimension, or more than fits into 63 bits.
std::size_t dense_bytes(int type, std::span<const int64_t> dims);
/// "f32[2,3]", for messages.
std::string shape_text(int type, std::span<const int64_t> dims);

}  // namespace npu::pjrt
