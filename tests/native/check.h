// What the tests of this folder share: cases that register themselves, and checks that name what they saw.
#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "cann/acl.h"

namespace check {

struct Case {
    const char* name;
    std::function<void()> body;
};

inline std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}

struct Register {
    Register(const char* name, std::function<void()> body) { cases().push_back({name, std::move(body)}); }
};

inline std::atomic<int> failures = 0;

template <typename Left, typename Right>
void equal(const Left& left, const Right& right, const char* what, int line) {
    if (left == right) return;
    ++failures;
    std::cerr << "  line " << line << ": " << what << ": " << left << " is not " << right;
    if (const char* message = aclGetRecentErrMsg(); message != nullptr && *message != '\0')
        std::cerr << " (" << message << ")";
    std::cerr << '\n';
}

inline void holds(bool condition, const char* what, int line) {
    if (condition) return;
    ++failures;
    std::cerr << "  line " << line << ": " << what << '\n';
}

inline int run_all() {
    for (const Case& each : cases()) {
        const int before = failures;
        each.body();
        std::cout << (failures == before ? "ok   " : "FAIL ") << each.name << std::endl;
    }
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace check

#define CASE(name)                                              \
    static void name();                                         \
    static const check::Register register_##name(#name, &name); \
    static void name()
#define EQUAL(left, right) check::equal((left), (right), #left " == " #right, __LINE__)
#define OK(call) check::equal(static_cast<int>(call), 0, #call, __LINE__)
#define HOLDS(condition) check::holds((condition), #condition, __LINE__)
