// Values of a GE graph as data: tensor types, constants, attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "cann/acl.h"

namespace npu::graph {

/// ge::DataType and aclDataType have the same numbers; the model protobuf has others (see model.h).
using DataType = aclDataType;

/// Bytes of one element; 0 for types without a whole number of bytes (int4, string, undefined).
std::size_t element_size(DataType type);
/// "float32", "bfloat16", ...: NumPy's and ml_dtypes' names. "undefined" for ACL_DT_UNDEFINED.
const char* dtype_name(DataType type);

inline constexpr int64_t kUnknown = -1;

/// The dtype and shape of a tensor. An absent optional input has dtype ACL_DT_UNDEFINED.
struct TensorType {
    DataType dtype = ACL_DT_UNDEFINED;
    std::vector<int64_t> dims;  ///< kUnknown where a size is not known
    bool ranked = true;         ///< false: not even the number of dimensions is known, dims is empty

    bool present() const { return dtype != ACL_DT_UNDEFINED; }
    bool is_static() const;  ///< ranked and every size known
    /// Product of the sizes. Throws std::logic_error unless is_static().
    int64_t elements() const;
    std::string text() const;  ///< "float32[2,?,8]"
    bool operator==(const TensorType&) const = default;
};

/// A dense row-major tensor on the host.
struct Constant {
    TensorType type;
    std::vector<std::byte> data;
};

/// The elements of an integer (or bool) constant as int64. Throws std::invalid_argument for other dtypes.
std::vector<int64_t> integers(const Constant& value);

/// A data type as an attribute ("dst_type"): distinct from the integer of the same number.
struct TypeAttribute {
    DataType value;
    bool operator==(const TypeAttribute&) const = default;
};

using Attribute =
    std::variant<bool, int64_t, double, std::string, TypeAttribute, std::vector<bool>, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>, std::vector<TypeAttribute>,
                 std::vector<std::vector<int64_t>>, std::shared_ptr<const Constant>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// A graph that cannot be read, is not in the catalogue, or makes no sense. what() names node and operator.
struct GraphError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace npu::graph
