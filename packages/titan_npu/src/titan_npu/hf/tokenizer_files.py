"""The tokenizer that goes with a model's weights: its files, and its special tokens for config.json."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from torchtitan.components.tokenizer import HuggingFaceTokenizer

from titan_npu.errors import DataError

FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
)


def copy(source: Path, target: Path) -> None:
    for name in FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def special_tokens(folder: Path) -> dict[str, Any]:
    """bos_token_id, eos_token_id and pad_token_id of the tokenizer in ``folder``; null where it has none.

    Raises DataError when there is no tokenizer that can be read.
    """
    try:
        tokenizer = HuggingFaceTokenizer(tokenizer_path=str(folder))
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text()) if path.is_file() else {}
    except Exception as error:  # the tokenizers library raises a bare Exception
        raise DataError(
            f"The tokenizer {folder} cannot be read ({error}): set hf_assets_path to the folder of the model's own."
        ) from error
    pad = settings.get("pad_token")
    pad = pad.get("content") if isinstance(pad, dict) else pad
    return {
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.tokenizer.token_to_id(pad) if pad else None,
    }
