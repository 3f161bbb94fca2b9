// The objects behind aclTensorDesc, aclDataBuffer and aclopAttr. Free of ATen: libascendcl owns them.
// Thread-safety: as in CANN, a handle is used by one thread at a time; a call copies what it needs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cann/acl.h"

struct aclTensorDesc {
    aclDataType type = ACL_DT_UNDEFINED;
    std::vector<int64_t> dims;  // the tensor's own shape and format
    aclFormat format = ACL_FORMAT_UNDEFINED;
    std::vector<int64_t> storage_dims;  // how it lies in memory, where that differs
    aclFormat storage_format = ACL_FORMAT_UNDEFINED;
    std::vector<std::array<int64_t, 2>> shape_range, value_range;
    aclMemType placement = ACL_MEMTYPE_DEVICE;
    std::optional<std::vector<std::byte>> constant;  // aclSetTensorConst: the value, known to the host
    std::string name;
    std::string dynamic_input;
};

struct aclDataBuffer {
    void* data;
    std::size_t size;  // bytes
};

struct aclopAttr {
    using Value = std::variant<bool, int64_t, double, std::string, std::vector<bool>, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>,
                               std::vector<std::vector<int64_t>>>;  // a dtype is its number
    std::map<std::string, Value, std::less<>> values;
};
