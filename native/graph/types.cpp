#include "graph/types.h"

#include <algorithm>
#include <cstring>

#include "graph/datatypes.h"

namespace npu::graph {

std::span<const DataTypeRow> data_types() {
    // NumPy's and ml_dtypes' names; numbers of ge::DataType (aclDataType lacks some) and of the protobuf's
    // own enumeration.
    static constexpr DataTypeRow kRows[] = {
        {0, 1, 4, "FLOAT", "float32"},
        {1, 2, 2, "FLOAT16", "float16"},
        {2, 3, 1, "INT8", "int8"},
        {3, 7, 4, "INT32", "int32"},
        {4, 4, 1, "UINT8", "uint8"},
        {6, 5, 2, "INT16", "int16"},
        {7, 6, 2, "UINT16", "uint16"},
        {8, 9, 4, "UINT32", "uint32"},
        {9, 8, 8, "INT64", "int64"},
        {10, 10, 8, "UINT64", "uint64"},
        {11, 12, 8, "DOUBLE", "float64"},
        {12, 11, 1, "BOOL", "bool"},
        {13, 13, 0, "STRING", "string"},
        {14, 14, 1, "DUAL_SUB_INT8", "dual_sub_int8"},
        {15, 15, 1, "DUAL_SUB_UINT8", "dual_sub_uint8"},
        {16, 16, 8, "COMPLEX64", "complex64"},
        {17, 17, 16, "COMPLEX128", "complex128"},
        {18, 18, 1, "QINT8", "qint8"},
        {19, 19, 2, "QINT16", "qint16"},
        {20, 20, 4, "QINT32", "qint32"},
        {21, 21, 1, "QUINT8", "quint8"},
        {22, 22, 2, "QUINT16", "quint16"},
        {23, 23, 0, "RESOURCE", "resource"},
        {24, 24, 0, "STRING_REF", "string_ref"},
        {25, 25, 0, "DUAL", "dual"},
        {26, 26, 0, "VARIANT", "variant"},
        {27, 27, 2, "BF16", "bfloat16"},
        {29, 28, 0, "INT4", "int4"},
        {30, 29, 0, "UINT1", "uint1"},
        {31, 30, 0, "INT2", "int2"},
        {32, 31, 0, "UINT2", "uint2"},
        {33, 32, 4, "COMPLEX32", "complex32"},
        {34, 33, 1, "HIFLOAT8", "hifloat8"},
        {35, 34, 1, "FLOAT8_E5M2", "float8_e5m2"},
        {36, 35, 1, "FLOAT8_E4M3FN", "float8_e4m3fn"},
        {37, 36, 1, "FLOAT8_E8M0", "float8_e8m0fnu"},
        {38, 37, 0, "FLOAT6_E3M2", "float6_e3m2fn"},
        {39, 38, 0, "FLOAT6_E2M3", "float6_e2m3fn"},
        {40, 39, 0, "FLOAT4_E2M1", "float4_e2m1fn"},
        {41, 40, 0, "FLOAT4_E1M2", "float4_e1m2fn"},
        {42, 41, 0, "HIFLOAT4", "hifloat4"},
    };
    return kRows;
}

const DataTypeRow* find_data_type(DataType type) {
    for (const DataTypeRow& row : data_types())
        if (row.number == type) return &row;
    return nullptr;
}

std::size_t element_size(DataType type) {
    const DataTypeRow* row = find_data_type(type);
    return row ? row->size : 0;
}

const char* dtype_name(DataType type) {
    const DataTypeRow* row = find_data_type(type);
    return row ? row->name : "undefined";
}

bool TensorType::is_static() const {
    return ranked && std::ranges::all_of(dims, [](int64_t size) { return size >= 0; });
}

int64_t TensorType::elements() const {
    if (!is_static()) throw std::logic_error("the number of elements of " + text() + " is not known");
    int64_t product = 1;
    for (int64_t size : dims)
        if (__builtin_mul_overflow(product, size, &product))
            throw std::logic_error(text() + " has too many elements");
    return product;
}

std::string TensorType::text() const {
    std::string out = dtype_name(dtype);
    if (!ranked) return out + "[...]";
    out += '[';
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (i) out += ',';
        out += dims[i] < 0 ? "?" : std::to_string(dims[i]);
    }
    return out + ']';
}

namespace {

template <class T>
std::vector<int64_t> widen(const std::vector<std::byte>& data) {
    std::vector<int64_t> out(data.size() / sizeof(T));
    for (std::size_t i = 0; i < out.size(); ++i) {
        T element;
        std::memcpy(&element, data.data() + i * sizeof(T), sizeof(T));
        out[i] = static_cast<int64_t>(element);
    }
    return out;
}

}  // namespace

std::vector<int64_t> integers(const Constant& value) {
    switch (value.type.dtype) {
        case ACL_INT8:
            return widen<int8_t>(value.data);
        case ACL_INT16:
            return widen<int16_t>(value.data);
        case ACL_INT32:
            return widen<int32_t>(value.data);
        case ACL_INT64:
            return widen<int64_t>(value.data);
        case ACL_UINT8:
        case ACL_BOOL:
            return widen<uint8_t>(value.data);
        case ACL_UINT16:
            return widen<uint16_t>(value.data);
        case ACL_UINT32:
            return widen<uint32_t>(value.data);
        case ACL_UINT64:
            return widen<uint64_t>(value.data);
        default:
            throw std::invalid_argument("a constant of integers is needed, not one of type " +
                                        value.type.text());
    }
}

}  // namespace npu::graph
