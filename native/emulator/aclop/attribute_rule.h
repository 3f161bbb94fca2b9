// How a row of the table names a GE attribute:
//     axis                    a parameter of the body (monostate when the call does not give it)
//     data_format=NCHW        no parameter: the call must give this value
//     direction=A|B           ... one of these values
//     forget_bias?=0          ... this value, or none at all (GE's default is this one)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "aclop/handles.h"

namespace npu::aclop {

inline bool is_parameter(const std::string& text) { return text.find('=') == std::string::npos; }

struct AttributeRule {
    explicit AttributeRule(std::string_view text);

    /// Why a value (null: not given) cannot be served; nullopt when it can.
    std::optional<std::string> refusal(const aclopAttr::Value* value) const;

    std::string_view name;
    std::string_view allowed;  // separated by |; empty for a parameter
    bool may_be_absent = false;
};

}  // namespace npu::aclop
