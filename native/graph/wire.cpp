#include "graph/wire.h"

#include <bit>
#include <cstring>

namespace npu::graph {
namespace {

[[noreturn]] void cut_off() {
    throw GraphError("the model's bytes end in the middle of a field: it is cut off or not a model");
}

[[noreturn]] void wrong_kind(const Field& field, const char* wanted) {
    throw GraphError("field " + std::to_string(field.number) + " of the model's protobuf should be " +
                     wanted + ": the bytes are not a model of package ge.proto");
}

uint64_t take_varint(Bytes& rest) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (rest.empty()) cut_off();
        auto byte = static_cast<uint64_t>(rest[0]);
        rest = rest.subspan(1);
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    throw GraphError("the model holds a varint of more than ten bytes: it is not a protobuf");
}

Bytes take(Bytes& rest, uint64_t count) {
    if (count > rest.size()) cut_off();
    Bytes head = rest.first(count);
    rest = rest.subspan(count);
    return head;
}

template <class T>
T little_endian(Bytes bytes) {
    static_assert(std::endian::native == std::endian::little);
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

}  // namespace

bool Message::next(Field& field) {
    if (rest_.empty()) return false;
    uint64_t tag = take_varint(rest_);
    field = Field{};
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        throw GraphError("the model's bytes hold no protobuf: a field has no number");
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
        case 0:
            field.value = take_varint(rest_);
            return true;
        case 1:
            field.fixed64 = true;
            field.value = little_endian<uint64_t>(take(rest_, 8));
            return true;
        case 2:
            field.has_bytes = true;
            field.bytes = take(rest_, take_varint(rest_));
            return true;
        case 5:
            field.fixed32 = true;
            field.value = little_endian<uint32_t>(take(rest_, 4));
            return true;
        default:
            throw GraphError("the model's bytes hold no protobuf: wire type " + std::to_string(tag & 7));
    }
}

int64_t Field::integer() const {
    if (has_bytes || fixed32 || fixed64) wrong_kind(*this, "an integer");
    return static_cast<int64_t>(value);
}

Bytes Field::message() const {
    if (!has_bytes) wrong_kind(*this, "a text or a message");
    return bytes;
}

std::string_view Field::text() const {
    Bytes content = message();
    return {reinterpret_cast<const char*>(content.data()), content.size()};
}

double Field::real() const {
    if (!fixed32) wrong_kind(*this, "a float");
    return std::bit_cast<float>(static_cast<uint32_t>(value));
}

void Field::append(std::vector<int64_t>& out) const {
    if (!has_bytes) return out.push_back(integer());
    for (Bytes rest = bytes; !rest.empty();) out.push_back(static_cast<int64_t>(take_varint(rest)));
}

void Field::append(std::vector<double>& out) const {
    if (!has_bytes) return out.push_back(real());
    for (Bytes rest = bytes; !rest.empty();) out.push_back(little_endian<float>(take(rest, sizeof(float))));
}

std::string printable(std::string_view name) {
    constexpr std::size_t kLongest = 80;
    std::string out;
    for (unsigned char c : name.substr(0, kLongest)) {
        constexpr char kHex[] = "0123456789abcdef";
        if (c >= 0x20 && c < 0x7f)
            out += static_cast<char>(c);
        else
            out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    }
    return out + (name.size() > kLongest ? "..." : "");
}

std::string quoted(std::string_view name) { return '"' + printable(name) + '"'; }

}  // namespace npu::graph
