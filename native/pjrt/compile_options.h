// What a caller wants of a compilation, read from xla's CompileOptionsProto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace npu::pjrt {

struct CompileOptions {
    int64_t num_replicas = 1, num_partitions = 1;
    int64_t device_ordinal = -1;      ///< -1: not said
    std::vector<int64_t> assignment;  ///< device ids, replica by replica; empty: not said
    bool portable = false;            ///< for any one device, which each run names

    /// Throws Status: the bytes are no such message, or its numbers are impossible.
    static CompileOptions read(std::string_view bytes);
};

/// xla's DeviceAssignmentProto.
std::string serialise_assignment(const std::vector<int64_t>& devices, int64_t replicas, int64_t partitions);

}  // namespace npu::pjrt
