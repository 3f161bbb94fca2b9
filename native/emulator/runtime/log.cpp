// aclAppLog: messages of applications, to stderr from NPU_EMULATOR_LOG (debug, info, warning, error; default
// error) up.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cann/acl.h"

namespace {

constexpr const char* kNames[] = {"debug", "info", "warning", "error"};

int threshold() {
    const char* text = std::getenv("NPU_EMULATOR_LOG");
    for (int level = ACL_DEBUG; text != nullptr && level <= static_cast<int>(ACL_ERROR); ++level) {
        if (std::string_view(text) == kNames[level]) return level;
    }
    return ACL_ERROR + 1;
}

}  // namespace

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt,
               ...) {
    static const int lowest = threshold();
    if (static_cast<int>(logLevel) < lowest || logLevel > ACL_ERROR || fmt == nullptr) return;
    char text[1024];
    va_list arguments;
    va_start(arguments, fmt);
    std::vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    std::fprintf(stderr, "[%s] %s:%u %s: %s\n", kNames[logLevel], file == nullptr ? "" : file, line,
                 func == nullptr ? "" : func, text);
}
