#!/usr/bin/env bash
# Runs each benchmark of benchmarks/; they print their own tables.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
scripts=(benchmarks/bench_*.py)
[ ${#scripts[@]} -gt 0 ] || { echo "[bench] benchmarks/ holds no bench_*.py" >&2; exit 1; }
for script in "${scripts[@]}"; do
    echo "[bench] $script"
    .venv/bin/python "$script"
done
