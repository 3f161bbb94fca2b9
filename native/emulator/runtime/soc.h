// What is known of each SoC that the emulator can pose as (core counts and L2 from CANN's platform
// configuration).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace npu::emulator {

struct Soc {
    const char* name;
    int64_t cube_cores;
    int64_t vector_cores;
    int64_t l2_bytes;
    int64_t ai_cpus;
};

std::span<const Soc> known_socs();
const Soc* find_soc(std::string_view name);

}  // namespace npu::emulator
