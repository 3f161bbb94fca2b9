#include "kernels/dtype.h"

#include "kernels/kernel.h"

namespace npu::emulator {
namespace {

struct Row {
    aclDataType acl;
    std::optional<at::ScalarType> aten;
    const char* name;
};

constexpr auto none = std::nullopt;

const Row rows[] = {
    {ACL_FLOAT, at::kFloat, "ACL_FLOAT"},
    {ACL_FLOAT16, at::kHalf, "ACL_FLOAT16"},
    {ACL_INT8, at::kChar, "ACL_INT8"},
    {ACL_INT32, at::kInt, "ACL_INT32"},
    {ACL_UINT8, at::kByte, "ACL_UINT8"},
    {ACL_INT16, at::kShort, "ACL_INT16"},
    {ACL_UINT16, at::kUInt16, "ACL_UINT16"},
    {ACL_UINT32, at::kUInt32, "ACL_UINT32"},
    {ACL_INT64, at::kLong, "ACL_INT64"},
    {ACL_UINT64, at::kUInt64, "ACL_UINT64"},
    {ACL_DOUBLE, at::kDouble, "ACL_DOUBLE"},
    {ACL_BOOL, at::kBool, "ACL_BOOL"},
    {ACL_COMPLEX64, at::kComplexFloat, "ACL_COMPLEX64"},
    {ACL_COMPLEX128, at::kComplexDouble, "ACL_COMPLEX128"},
    {ACL_BF16, at::kBFloat16, "ACL_BF16"},
    {ACL_COMPLEX32, at::kComplexHalf, "ACL_COMPLEX32"},
    {ACL_FLOAT8_E5M2, at::kFloat8_e5m2, "ACL_FLOAT8_E5M2"},
    {ACL_FLOAT8_E4M3FN, at::kFloat8_e4m3fn, "ACL_FLOAT8_E4M3FN"},
    {ACL_FLOAT8_E8M0, at::kFloat8_e8m0fnu, "ACL_FLOAT8_E8M0"},
    {ACL_INT4, none, "ACL_INT4"},
    {ACL_UINT1, none, "ACL_UINT1"},
    {ACL_STRING, none, "ACL_STRING"},
    {ACL_HIFLOAT8, none, "ACL_HIFLOAT8"},
    {ACL_FLOAT6_E3M2, none, "ACL_FLOAT6_E3M2"},
    {ACL_FLOAT6_E2M3, none, "ACL_FLOAT6_E2M3"},
    {ACL_FLOAT4_E2M1, none, "ACL_FLOAT4_E2M1"},
    {ACL_FLOAT4_E1M2, none, "ACL_FLOAT4_E1M2"},
};

const Row* find(aclDataType type) {
    for (auto& row : rows) {
        if (row.acl == type) return &row;
    }
    return nullptr;
}

}  // namespace

std::optional<at::ScalarType> scalar_type(aclDataType type) {
    auto* row = find(type);
    return row ? row->aten : std::nullopt;
}

const char* data_type_name(aclDataType type) {
    auto* row = find(type);
    return row ? row->name : "an unknown aclDataType";
}

bool is_strided(aclFormat format) {
    switch (format) {
        case ACL_FORMAT_UNDEFINED:
        case ACL_FORMAT_NCHW:
        case ACL_FORMAT_NHWC:
        case ACL_FORMAT_ND:
        case ACL_FORMAT_NDHWC:
        case ACL_FORMAT_NCDHW:
        case ACL_FORMAT_NCL:
        case ACL_FORMAT_NC:
            return true;
        default:
            return false;
    }
}

namespace detail {

ScalarType Cast<ScalarType>::from(const Arg& arg, std::size_t index) {
    if (auto* type = std::get_if<ScalarType>(&arg)) return *type;
    if (auto* number =
            std::get_if<int64_t>(&arg)) {  // a GE attribute: ge::DataType numbers are aclDataType's
        if (auto type = scalar_type(static_cast<aclDataType>(*number))) return *type;
    }
    bad_argument(index, "a dtype", arg);
}

}  // namespace detail
}  // namespace npu::emulator
