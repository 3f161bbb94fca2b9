#!/usr/bin/env bash
# The native tests: on the libraries of build/native, and on a build of those that need no torch under AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

run_tests() { # run_tests LIBRARIES TESTS [OPTION]: builds tests/native against a build tree of native/ and runs them
    cmake -S tests/native -B "$2" -G Ninja -DNPU_BUILD="$PWD/$1" "${@:3}" > "$2.log" 2>&1 || { cat "$2.log"; exit 1; }
    cmake --build "$2" >> "$2.log" 2>&1 || { cat "$2.log"; exit 1; }
    ctest --test-dir "$2" --output-on-failure --no-tests=error
}

echo "[test] native tests on build/native"
run_tests build/native build/native_tests

echo "[test] the same under AddressSanitizer and UndefinedBehaviorSanitizer, in build/sanitized"
# GCC takes std::regex for uninitialised under AddressSanitizer (GCC bug 105562).
cmake -S native -B build/sanitized -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DNPU_SANITIZE=ON \
    -DCMAKE_CXX_FLAGS=-Wno-maybe-uninitialized \
    > build/sanitized.log 2>&1 || { cat build/sanitized.log; exit 1; }
cmake --build build/sanitized --target ascendcl hccl hcomm ge_runner npu_graph npu_cann >> build/sanitized.log 2>&1 || { cat build/sanitized.log; exit 1; }
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
run_tests build/sanitized build/sanitized_tests -DNPU_SANITIZE=ON
