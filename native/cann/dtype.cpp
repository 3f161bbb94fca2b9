#include "cann/dtype.h"

#include <algorithm>

namespace npu::cann {
namespace {

// DLDataTypeCode of dlpack.h 1.1.
enum : uint8_t {
    kInt = 0,
    kUInt = 1,
    kFloat = 2,
    kBfloat = 4,
    kComplex = 5,
    kBool = 6,
    kE4M3FN = 10,
    kE5M2 = 12,
    kE8M0FNU = 14
};

constexpr DType kDTypes[] = {
    {ACL_FLOAT, "float32", 4, kFloat, HCCL_DATA_TYPE_FP32},
    {ACL_FLOAT16, "float16", 2, kFloat, HCCL_DATA_TYPE_FP16},
    {ACL_BF16, "bfloat16", 2, kBfloat, HCCL_DATA_TYPE_BFP16},
    {ACL_DOUBLE, "float64", 8, kFloat, HCCL_DATA_TYPE_FP64},
    {ACL_INT8, "int8", 1, kInt, HCCL_DATA_TYPE_INT8},
    {ACL_INT16, "int16", 2, kInt, HCCL_DATA_TYPE_INT16},
    {ACL_INT32, "int32", 4, kInt, HCCL_DATA_TYPE_INT32},
    {ACL_INT64, "int64", 8, kInt, HCCL_DATA_TYPE_INT64},
    {ACL_UINT8, "uint8", 1, kUInt, HCCL_DATA_TYPE_UINT8},
    {ACL_UINT16, "uint16", 2, kUInt, HCCL_DATA_TYPE_UINT16},
    {ACL_UINT32, "uint32", 4, kUInt, HCCL_DATA_TYPE_UINT32},
    {ACL_UINT64, "uint64", 8, kUInt, HCCL_DATA_TYPE_UINT64},
    {ACL_BOOL, "bool", 1, kBool, HCCL_DATA_TYPE_RESERVED},
    {ACL_COMPLEX64, "complex64", 8, kComplex, HCCL_DATA_TYPE_RESERVED},
    {ACL_COMPLEX128, "complex128", 16, kComplex, HCCL_DATA_TYPE_RESERVED},
    {ACL_FLOAT8_E5M2, "float8_e5m2", 1, kE5M2, HCCL_DATA_TYPE_FP8E5M2},
    {ACL_FLOAT8_E4M3FN, "float8_e4m3fn", 1, kE4M3FN, HCCL_DATA_TYPE_FP8E4M3},
    {ACL_FLOAT8_E8M0, "float8_e8m0fnu", 1, kE8M0FNU, HCCL_DATA_TYPE_FP8E8M0},
};

}  // namespace

std::span<const DType> dtypes() { return kDTypes; }

const DType* find_dtype(aclDataType type) {
    const DType* found = std::ranges::find(kDTypes, type, &DType::acl);
    return found == std::end(kDTypes) ? nullptr : found;
}

const DType* find_dtype_of_dlpack(uint8_t code, uint8_t bits) {
    const DType* found = std::ranges::find_if(
        kDTypes, [&](const DType& each) { return each.dlpack == code && each.size * 8 == bits; });
    return found == std::end(kDTypes) ? nullptr : found;
}

}  // namespace npu::cann
