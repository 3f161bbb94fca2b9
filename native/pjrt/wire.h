// Protobuf messages, written: the counterpart of graph/wire.h, which reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/wire.h"

namespace npu::pjrt {

inline graph::Bytes as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline void put_varint(std::string& out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
}

inline void put_integer(std::string& out, uint32_t field, int64_t value) {
    put_varint(out, field << 3);
    put_varint(out, static_cast<uint64_t>(value));
}

inline void put_bytes(std::string& out, uint32_t field, std::string_view value) {
    put_varint(out, field << 3 | 2);
    put_varint(out, value.size());
    out += value;
}

/// FNV-1a over 64 bits: a name for some bytes, no protection against anybody.
inline uint64_t fingerprint64(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
    return hash;
}

}  // namespace npu::pjrt
