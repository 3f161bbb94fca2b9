#include "pjrt/element_type.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "pjrt/status.h"

namespace npu::pjrt {
namespace {

struct Row {
    int type;
    const char* name;
    std::size_t size;
};
#define ROW(type, name, size) {PJRT_Buffer_Type_##type, name, size}
constexpr Row kTypes[] = {
    ROW(PRED, "pred", 1),
    ROW(S1, "s1", 1),
    ROW(S2, "s2", 1),
    ROW(S4, "s4", 1),
    ROW(S8, "s8", 1),
    ROW(S16, "s16", 2),
    ROW(S32, "s32", 4),
    ROW(S64, "s64", 8),
    ROW(U1, "u1", 1),
    ROW(U2, "u2", 1),
    ROW(U4, "u4", 1),
    ROW(U8, "u8", 1),
    ROW(U16, "u16", 2),
    ROW(U32, "u32", 4),
    ROW(U64, "u64", 8),
    ROW(F4E2M1FN, "f4e2m1fn", 1),
    ROW(F6E2M3FN, "f6e2m3fn", 1),
    ROW(F6E3M2FN, "f6e3m2fn", 1),
    ROW(F8E3M4, "f8e3m4", 1),
    ROW(F8E4M3, "f8e4m3", 1),
    ROW(F8E4M3FN, "f8e4m3fn", 1),
    ROW(F8E4M3B11FNUZ, "f8e4m3b11fnuz", 1),
    ROW(F8E4M3FNUZ, "f8e4m3fnuz", 1),
    ROW(F8E5M2, "f8e5m2", 1),
    ROW(F8E5M2FNUZ, "f8e5m2fnuz", 1),
    ROW(F8E8M0FNU, "f8e8m0fnu", 1),
    ROW(F16, "f16", 2),
    ROW(BF16, "bf16", 2),
    ROW(F32, "f32", 4),
    ROW(F64, "f64", 8),
    ROW(C64, "c64", 8),
    ROW(C128, "c128", 16),
    ROW(TOKEN, "token", 0),
};
#undef ROW

const Row* find(int type) {
    const Row* row = std::ranges::find(kTypes, type, &Row::type);
    return row == std::end(kTypes) ? nullptr : row;
}

}  // namespace

bool known_type(int type) { return find(type) != nullptr; }

std::size_t element_size(int type) {
    const Row* row = find(type);
    if (row == nullptr) throw invalid("PJRT has no element type with the number " + std::to_string(type));
    return row->size;
}

std::string element_name(int type) {
    const Row* row = find(type);
    return row == nullptr ? "type " + std::to_string(type) : row->name;
}

std::size_t dense_bytes(int type, std::span<const int64_t> dims) {
    std::size_t bytes = element_size(type);
    if (std::ranges::find(dims, 0) != dims.end()) bytes = 0;
    for (int64_t extent : dims) {
        if (extent < 0) throw invalid("an array of the shape " + shape_text(type, dims) + " is impossible");
        std::size_t product = 0;
        if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &product) ||
            product > static_cast<std::size_t>(std::numeric_limits<int64_t>::max()))
            throw invalid("an array of the shape " + shape_text(type, dims) +
                          " has more bytes than 63 bits hold");
        bytes = product;
    }
    return bytes;
}

std::string shape_text(int type, std::span<const int64_t> dims) {
    std::string text = element_name(type) + "[";
    for (std::size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
    return text + "]";
}

}  // namespace npu::pjrt
