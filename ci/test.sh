#!/usr/bin/env bash
# Every test. Ends with pytest's own summary line.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

echo "[test] native tests (ctest) in build/native"
ctest --test-dir build/native --output-on-failure --no-tests=error

echo "[test] native tests once more under AddressSanitizer and UndefinedBehaviorSanitizer, in build/sanitized"
bash ci/sanitized.sh

echo "[test] Python tests"
exec python -m pytest "$@"
