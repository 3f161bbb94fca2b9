// NPU_EMULATOR_* environment variables, read once.
#include "config.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

namespace npu::emulator {

namespace {

constexpr uint64_t kGiB = 1ULL << 30;
constexpr uint64_t kDefaultMemory = 16 * kGiB;
constexpr uint32_t kMostDevices = 64;

/// The memory that this process may use: the machine's, or its control group's limit.
uint64_t host_memory() {
    struct sysinfo info{};
    uint64_t total =
        sysinfo(&info) == 0 ? static_cast<uint64_t>(info.totalram) * info.mem_unit : kDefaultMemory;
    for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
        std::ifstream file(path);
        if (uint64_t limit = 0; file >> limit) total = std::min(total, limit);
    }
    return total;
}

/// Three quarters of the host's memory at most, in whole MiB: the rest is the application's own.
uint64_t default_memory() { return std::min(kDefaultMemory, host_memory() / 4 * 3) >> 20 << 20; }

bool parse_number(const char* text, double* value) {
    char* end = nullptr;
    *value = std::strtod(text, &end);
    return end != text && *end == '\0' && std::isfinite(*value);
}

void read_devices(Config& config) {
    const char* text = std::getenv("NPU_EMULATOR_DEVICES");
    if (text == nullptr || *text == '\0') return;
    double value = 0;
    if (!parse_number(text, &value) || value != std::floor(value) || value < 1 || value > kMostDevices) {
        config.problem = "NPU_EMULATOR_DEVICES is \"" + std::string(text) +
                         "\"; set it to a whole number from 1 to " + std::to_string(kMostDevices);
        return;
    }
    config.devices = static_cast<uint32_t>(value);
}

void read_memory(Config& config) {
    const char* text = std::getenv("NPU_EMULATOR_HBM_GB");
    config.device_memory = default_memory();
    if (text == nullptr || *text == '\0') return;
    double value = 0;
    if (!parse_number(text, &value) || value < 1.0 / 1024 || value > 1024) {
        config.problem = "NPU_EMULATOR_HBM_GB is \"" + std::string(text) +
                         "\"; set it to the GiB of memory of one device, for example 4 or 0.5";
        return;
    }
    config.device_memory = static_cast<uint64_t>(value * static_cast<double>(kGiB)) >> 20 << 20;
}

void read_soc(Config& config) {
    const char* text = std::getenv("NPU_EMULATOR_SOC");
    if (text == nullptr || *text == '\0') text = "Ascend910B2";
    config.soc = find_soc(text);
    if (config.soc != nullptr) return;
    config.problem = "NPU_EMULATOR_SOC is \"" + std::string(text) + "\"; the emulator knows";
    for (const Soc& soc : known_socs()) config.problem += std::string(" ") + soc.name;
}

}  // namespace

Config read_config() {
    Config config;
    read_soc(config);
    read_memory(config);
    read_devices(config);
    return config;
}

}  // namespace npu::emulator
