#!/usr/bin/env bash
# Every test; arguments go to pytest. Ends with pytest's own summary line.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/test_native.sh
echo "[test] Python tests, fast and slow"
exec .venv/bin/python -m pytest "$@"
