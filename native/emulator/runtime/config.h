// Settings of the emulator.
#pragma once

#include <cstdint>
#include <string>

#include "soc.h"

namespace npu::emulator {

/// From the environment: NPU_EMULATOR_DEVICES, NPU_EMULATOR_HBM_GB, NPU_EMULATOR_SOC.
struct Config {
    uint32_t devices = 8;
    uint64_t device_memory = 0;  ///< bytes per device
    const Soc* soc = nullptr;
    std::string problem;  ///< a sentence if a variable cannot be used; every call then fails with it
};

Config read_config();

}  // namespace npu::emulator
