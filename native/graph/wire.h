// The protobuf wire format, read in place (internal to this folder). Bounds-checked: any bytes give fields or
// a GraphError.
#pragma once

#include <string_view>

#include "graph/types.h"

namespace npu::graph {

using Bytes = std::span<const std::byte>;

/// One field of a message. Exactly one of `bytes` (strings, messages, packed lists) and `value` (varints,
/// fixed) means something.
struct Field {
    uint32_t number = 0;
    bool has_bytes = false;
    bool fixed32 = false, fixed64 = false;
    uint64_t value = 0;
    Bytes bytes;

    int64_t integer() const;        ///< of a varint; GraphError where the field is none
    Bytes message() const;          ///< GraphError where the field has no bytes
    std::string_view text() const;  ///< the same as characters, not checked to be UTF-8
    double real() const;            ///< of a float; GraphError where the field is none
    /// Repeated numbers, packed or not.
    void append(std::vector<int64_t>& out) const;
    void append(std::vector<double>& out) const;
};

/// The fields of a message, in order. Groups (proto2) are refused.
class Message {
  public:
    explicit Message(Bytes bytes) : rest_(bytes) {}
    bool next(Field& field);  ///< false at the end; GraphError where the bytes are cut off or make no sense

  private:
    Bytes rest_;
};

/// A name out of a model, safe to print: control characters and bytes beyond ASCII as "\x..", cut at 80
/// characters.
std::string printable(std::string_view name);
std::string quoted(std::string_view name);

}  // namespace npu::graph
