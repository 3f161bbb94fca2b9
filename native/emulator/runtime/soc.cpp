#include "soc.h"

namespace npu::emulator {

namespace {
constexpr int64_t kMiB = 1 << 20;
constexpr Soc kSocs[] = {
    {"Ascend910B1", 24, 48, 192 * kMiB, 6},    {"Ascend910B2", 24, 48, 192 * kMiB, 6},
    {"Ascend910B2C", 24, 48, 192 * kMiB, 6},   {"Ascend910B3", 20, 40, 192 * kMiB, 6},
    {"Ascend910B4", 20, 40, 96 * kMiB, 6},     {"Ascend910B4-1", 20, 40, 168 * kMiB, 6},
    {"Ascend910_9362", 20, 40, 192 * kMiB, 6}, {"Ascend910_9372", 20, 40, 192 * kMiB, 6},
    {"Ascend910_9381", 24, 48, 192 * kMiB, 6}, {"Ascend910_9382", 24, 48, 192 * kMiB, 6},
    {"Ascend910_9391", 24, 48, 192 * kMiB, 6}, {"Ascend910_9392", 24, 48, 192 * kMiB, 6},
};
}  // namespace

std::span<const Soc> known_socs() { return kSocs; }

const Soc* find_soc(std::string_view name) {
    for (const Soc& soc : kSocs) {
        if (name == soc.name) return &soc;
    }
    return nullptr;
}

}  // namespace npu::emulator
