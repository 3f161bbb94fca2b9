// CANN's data types and ATen's.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "cann/acl.h"

#pragma GCC visibility push(default)  // used by the doors, other libraries
namespace npu::emulator {

// nullopt where ATen has no such type (int4, hifloat8, ...).
std::optional<at::ScalarType> scalar_type(aclDataType type);

const char* data_type_name(aclDataType type);  // "ACL_FLOAT"

// Formats whose memory is the strided view itself; the others (FRACTAL_NZ, NC1HWC0, ...) are tiled layouts.
bool is_strided(aclFormat format);

}  // namespace npu::emulator
#pragma GCC visibility pop
