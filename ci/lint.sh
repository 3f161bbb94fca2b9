#!/usr/bin/env bash
# Style and types. Changes nothing unless called with --write.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
sources() { git ls-files -co --exclude-standard -- 'native/*.cpp' 'native/*.h' 'tests/*.cpp' 'tests/*.h'; }

if [ "${1:-}" = --write ]; then
    echo "[format] ruff"; ruff check --fix --quiet . || true; ruff format .
    echo "[format] clang-format"; sources | xargs -r clang-format -i
    exit
fi
echo "[lint] ruff check";        ruff check .
echo "[lint] ruff format";       ruff format --check .
echo "[lint] mypy";              mypy
echo "[lint] clang-format";      sources | xargs -r clang-format --dry-run -Werror
echo "[lint] clean"
