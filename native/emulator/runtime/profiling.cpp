// The profiler's registration interface, which torch_npu calls at import. No profiler runs, so what a module
// registers is never called back, and what it would report is refused.
#include <cstdio>
#include <ctime>
#include <functional>
#include <string_view>

#include "error.h"

using namespace npu::emulator;

/// torch_npu's profiler goes on whatever this answers, so the refusal is printed too.
aclError aclprofInit(const char*, size_t) {
    const aclError code =
        unsupported("aclprofInit", "It has no profiler; torch.profiler shows the host's side.");
    std::fprintf(stderr, "%s\n", recent_sentence());
    return code;
}

#pragma GCC visibility push(default)
extern "C" {

/// handle would be told when profiling starts; it never does.
int32_t MsprofRegisterCallback(uint32_t /*moduleId*/, int32_t (*handle)(uint32_t, void*, uint32_t)) {
    return require(reinterpret_cast<void*>(handle), "MsprofRegisterCallback", "handle");
}

/// The profiler's clock: nanoseconds since boot.
uint64_t MsprofSysCycleTime() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<uint64_t>(now.tv_nsec);
}

/// The number that stands for a string in reports.
uint64_t MsprofGetHashId(const char* info, size_t length) {
    return info == nullptr ? 0 : std::hash<std::string_view>{}(std::string_view(info, length));
}

int32_t MsprofReportApi(uint32_t, const void*) {
    return unsupported("MsprofReportApi", "It has no profiler.");
}

int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t) {
    return unsupported("MsprofReportCompactInfo", "It has no profiler.");
}

int32_t MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) {
    return unsupported("MsprofReportAdditionalInfo", "It has no profiler.");
}
}
#pragma GCC visibility pop
