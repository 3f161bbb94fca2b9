#!/usr/bin/env bash
# Compiles every C++ source for aarch64 with a cross compiler (Debian: g++-aarch64-linux-gnu) and keeps nothing: most Ascend hosts are aarch64.
# Usage: aarch64.sh [WORD], only the sources whose path contains WORD. Takes the commands of build/native, so `make setup` comes first.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v aarch64-linux-gnu-g++ > /dev/null || { echo "[aarch64] needs aarch64-linux-gnu-g++: apt-get install g++-aarch64-linux-gnu" >&2; exit 1; }
.venv/bin/python - "${1:-}" <<'PY'
import json, os, re, shlex, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

commands = [c for c in json.load(open("build/native/compile_commands.json")) if sys.argv[1] in c["file"] and "cmake_pch" not in c["file"]]


def compile_one(entry: dict) -> tuple[str, subprocess.CompletedProcess]:
    words = shlex.split(entry["command"])
    kept = [w for w in words[1:] if not re.search(r"cmake_pch|^-M|^-Winvalid-pch|^-m(avx|fma|f16c)", w)]
    drop = {i for i, w in enumerate(kept) if w in ("-o", "-MF", "-MT")}
    kept = [w for i, w in enumerate(kept) if i not in drop and i - 1 not in drop and w != "-include"]
    command = ["aarch64-linux-gnu-g++", "-fsyntax-only", *kept]
    return entry["file"], subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)


failed = 0
with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    for file, done in pool.map(compile_one, commands):
        if done.returncode:
            failed += 1
            print(f"[aarch64] {file}\n{done.stderr}", file=sys.stderr)
print(f"[aarch64] {len(commands) - failed} of {len(commands)} sources compile")
sys.exit(1 if failed or not commands else 0)
PY
