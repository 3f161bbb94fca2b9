"""The ``export`` and ``import`` commands: their words, and what they say. Imports torch only when one of them runs."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from titan_npu.errors import ConfigError

if TYPE_CHECKING:
    from titan_npu.config.compose import Job

logger = logging.getLogger("titan_npu")

EXPORT_HELP = """\
FOLDER is a run's dump folder or one checkpoint in it (.../step-N); without it, dump_folder=... says it. The other
words are those of titan-npu train: they say which model the checkpoint holds, and with which tokenizer.

examples:
  titan-npu export recipe=llama3_debug dump_folder=./run --out ./model
  titan-npu export ./run/checkpoint/step-20 recipe=llama3_debug --out ./model --dtype bfloat16
"""

IMPORT_HELP = """\
FOLDER has the weights (*.safetensors), config.json and the tokenizer, as transformers saves them. The other words are
those of titan-npu train: they say the recipe of the same model, and the run's dump_folder. Its checkpoint of step 0
becomes the weights, and training starts there, on any number of ranks.

examples:
  titan-npu import ./model recipe=llama3_debug dump_folder=./run
  titan-npu train recipe=llama3_debug dump_folder=./run hf_assets_path=./model
"""

DTYPES = ("float32", "bfloat16", "float16")


def add_parsers(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> list[argparse.ArgumentParser]:
    """Add both commands; returns their parsers."""
    export = commands.add_parser(
        "export",
        help="write a checkpoint as Hugging Face safetensors",
        epilog=EXPORT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    export.add_argument("words", nargs="*", metavar="FOLDER | key=value", help="checkpoint and recipe")
    export.add_argument("--out", type=Path, required=True, help="folder to write")
    export.add_argument("--dtype", choices=DTYPES, help="dtype of the weights (default: the checkpoint's)")
    export.add_argument("--step", type=int, help="step of the checkpoint (default: the latest)")
    load = commands.add_parser(
        "import",
        help="start a run from Hugging Face safetensors",
        epilog=IMPORT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    load.add_argument(
        "words", nargs="+", metavar="FOLDER | key=value", help="weights, recipe and dump_folder"
    )
    return [export, load]


def run_export(arguments: argparse.Namespace) -> None:
    """Export as the command line says. Raises a TitanNpuError."""
    folder, words = split_words(arguments.words)
    job = _compose(words)
    import torch

    from titan_npu.hf.export import export, find_checkpoint
    from titan_npu.hf.model import model_tensors

    checkpoint = find_checkpoint(
        folder or Path(job.trainer.dump_folder), job.trainer.checkpoint.folder, arguments.step
    )
    logger.info("exporting %s", checkpoint)
    done = export(
        model_tensors(job.recipe, job.trainer),
        checkpoint,
        arguments.out,
        dtype=getattr(torch, arguments.dtype) if arguments.dtype else None,
        report=logger.info,
    )
    logger.info(
        "%s: %.2f M parameters in %s, %.1f MB in %d files",
        done.folder, done.parameters / 1e6, done.dtype, done.bytes / 1e6, done.files,
    )  # fmt: skip


def run_import(arguments: argparse.Namespace) -> None:
    """Import as the command line says. Raises a TitanNpuError."""
    folder, words = split_words(arguments.words)
    if folder is None:
        raise ConfigError(
            "titan-npu import needs the folder of the weights: titan-npu import FOLDER key=value ..."
        )
    own_tokenizer = (folder / "tokenizer.json").is_file() and not _names(words, "hf_assets_path")
    if own_tokenizer:
        words = [*words, f"hf_assets_path={_quoted(folder.absolute())}"]
    job = _compose(words)
    from titan_npu.hf.load import import_weights
    from titan_npu.hf.model import model_tensors

    done = import_weights(
        model_tensors(job.recipe, job.trainer),
        folder,
        Path(job.trainer.dump_folder) / job.trainer.checkpoint.folder,
        report=logger.info,
    )
    logger.info("%s: %.2f M parameters, %.1f MB", done.checkpoint, done.parameters / 1e6, done.bytes / 1e6)
    logger.info("train from it: titan-npu train %s", " ".join(words))


def split_words(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The folder among ``words`` (the one that is no key=value) and the others."""
    folders = [word for word in words if "=" not in word]
    if len(folders) > 1:
        raise ConfigError(
            f"{folders[0]} and {folders[1]} are two folders: name one (other words are key=value)."
        )
    return (Path(folders[0]).expanduser() if folders else None), [word for word in words if "=" in word]


def _compose(words: Sequence[str]) -> Job:
    """The job of those words, without a device: none is needed, and none may be there."""
    if "torch" not in sys.modules:
        os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    from titan_npu import preflight

    preflight.check_packages()
    from titan_npu.config.compose import compose_job

    return compose_job(words)


def _names(words: Sequence[str], key: str) -> bool:
    return any(word.split("=", 1)[0] == key for word in words)


def _quoted(path: Path) -> str:
    """``path`` as a value of a word, quoted where hydra's grammar needs it."""
    text = str(path)
    plain = all(c.isalnum() or c in "/-_.~" for c in text)
    return text if plain else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
