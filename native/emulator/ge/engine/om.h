// What aclgrphBuildModel hands out and aclmdlLoadFromMem takes: in CANN an offline model (OM) of device code,
// here the serialised graph with the options that it was built with, behind a checksum. Stable as long as
// kOmVersion is.
#pragma once

#include "ge/engine/engine.h"

namespace npu::ge {

inline constexpr uint32_t kOmVersion = 1;

std::vector<std::byte> pack_om(std::span<const std::byte> model, const CompileOptions& options);

struct Om {
    std::span<const std::byte> model;  ///< within the packed bytes
    CompileOptions options;
};
/// Throws graph::GraphError: no OM of this emulator, another version, truncated, or damaged.
Om unpack_om(std::span<const std::byte> packed);

}  // namespace npu::ge
