// The bounds-checked C functions that libascendcl exports for its users (as in the C11 annex K style library
// of the vendor): they refuse what does not fit and always terminate what they write.
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

#pragma GCC visibility push(default)
extern "C" {

/// Writes at most `count` characters; -1 and an empty string if they do not fit into `limit` with the
/// terminator.
int vsnprintf_s(char* destination, size_t limit, size_t count, const char* format, va_list arguments) {
    if (destination == nullptr || limit == 0 || format == nullptr) return -1;
    const size_t room = count < limit ? count + 1 : limit;
    const int needed = std::vsnprintf(destination, room, format, arguments);
    if (needed < 0 || (static_cast<size_t>(needed) >= room && count >= limit)) {
        destination[0] = '\0';
        return -1;
    }
    return static_cast<size_t>(needed) >= room ? -1 : needed;  // cut off at `count`, as asked
}

int snprintf_s(char* destination, size_t limit, size_t count, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf_s(destination, limit, count, format, arguments);
    va_end(arguments);
    return written;
}

/// 0, or EINVAL / ERANGE with an empty destination.
int strcpy_s(char* destination, size_t limit, const char* source) {
    if (destination == nullptr || limit == 0) return EINVAL;
    destination[0] = '\0';
    if (source == nullptr) return EINVAL;
    const size_t length = std::strlen(source);
    if (length >= limit) return ERANGE;
    std::memcpy(destination, source, length + 1);
    return 0;
}
}
#pragma GCC visibility pop
