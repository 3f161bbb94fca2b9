// Which devices there are, over all processes, without having any: what a program can be compiled for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pjrt/device.h"

namespace npu::pjrt {

inline constexpr char kPlatformName[] = "npu";

/// Immutable, so thread-safe.
class Topology {
  public:
    Topology(std::string version, std::vector<std::shared_ptr<DeviceDescription>> devices);
    /// Throws Status: the bytes are no topology.
    static std::unique_ptr<Topology> parse(std::string_view bytes);
    std::string serialise() const;

    const std::string& version() const { return version_; }
    const std::vector<DeviceDescription*>& devices() const { return list_; }
    const NamedValues& attributes() const { return attributes_; }
    uint64_t fingerprint() const;

  private:
    std::string version_;
    std::vector<std::shared_ptr<DeviceDescription>> devices_;
    std::vector<DeviceDescription*> list_;
    NamedValues attributes_;
};

/// "CANN 9.0.0": what JAX's caches tell apart.
std::string platform_version();

void bind_topology(PJRT_Api& api);

}  // namespace npu::pjrt
