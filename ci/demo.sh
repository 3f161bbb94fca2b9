#!/usr/bin/env bash
# Trains the debug Llama 3 on npu:0 over a small real corpus with PyTorch and says where the results are, then a decoder with JAX. Usage: demo.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
case $folder in "" | / | . | ..) echo "[demo] '$folder' is no folder for outputs" >&2; exit 2 ;; esac

echo "[demo] which CANN:"
.venv/bin/python -c "from npu_common import toolkit; print('      ', toolkit.find().describe())"
echo "[demo] corpus and tokenizer, from the text that comes with Python: titan-npu data prepare"
.venv/bin/titan-npu data prepare
rm -rf "$folder"
echo "[demo] 30 steps: titan-npu train recipe=llama3_debug training.steps=30 dump_folder=$folder"
.venv/bin/titan-npu train recipe=llama3_debug training.steps=30 dump_folder="$folder"

echo "[demo] metrics:"
find "$folder" \( -name '*.jsonl' -o -name 'events.out.tfevents*' \) -printf '       %p\n' | sort
echo "[demo] checkpoint:"
find "$folder" -type d -name 'step-*' -printf '       %p\n' | sort -V | tail -n 1

echo "[demo] the same devices from JAX: JAX_PLATFORMS=npu python examples/jax/train.py"
JAX_PLATFORMS=npu .venv/bin/python examples/jax/train.py 40
