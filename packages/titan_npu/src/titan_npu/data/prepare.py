"""``titan-npu data prepare``: the standard-library corpus and a BPE tokenizer trained on it, offline."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from titan_npu.data.corpus import Document, documents
from titan_npu.errors import DataError

DEFAULT_VOCAB_SIZE = 2048
BOS, EOS, PAD = "<|begin_of_text|>", "<|end_of_text|>", "<|pad|>"
MIN_VOCAB_SIZE = 256 + 3
"""Bytes and special tokens: below that a byte-level BPE cannot write down every text."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was made: the folder, documents and characters per split, the size of the vocabulary."""

    folder: Path
    documents: dict[str, int]
    characters: dict[str, int]
    vocab_size: int

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer"


def default_folder() -> Path:
    """Where ``data prepare`` writes and the recipe llama3_debug looks: TITAN_NPU_DATA, or the user's cache
    folder."""
    root = os.environ.get("TITAN_NPU_DATA")
    if root:
        base = Path(root).expanduser()
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "titan-npu"
    return base / f"stdlib-py{sys.version_info.major}.{sys.version_info.minor}"


def is_prepared(folder: Path) -> bool:
    return (folder / "tokenizer" / "tokenizer.json").is_file() and (folder / "train.jsonl").is_file()


def prepare(
    folder: Path | None = None,
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    report: Callable[[str], None] = lambda line: None,
    source: Path | None = None,
) -> Prepared:
    """Write train.jsonl, validation.jsonl and tokenizer/ to ``folder`` (default: default_folder()).

    ``source`` is the folder of Python sources to read (default: the standard library's).
    Deterministic: the same Python and vocabulary size give the same bytes. The folder appears complete or not
        at all.

    Raises:
        DataError: the vocabulary is too small or too large for the corpus, or the folder cannot be written.
    """
    folder = (folder or default_folder()).expanduser().absolute()
    if vocab_size < MIN_VOCAB_SIZE:
        raise DataError(
            f"--vocab-size {vocab_size} is too small: a byte-level BPE needs at least {MIN_VOCAB_SIZE}."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise DataError(
            f"Cannot write to {folder.parent}: {error.strerror}; choose another folder with --out."
        ) from error
    try:
        report("reading the standard library")
        corpus = documents(source)
        for split in ("train", "validation"):
            _write_jsonl(
                scratch / f"{split}.jsonl", [document for document in corpus if document.split == split]
            )
        report(f"training a BPE tokenizer of {vocab_size} tokens")
        _train_tokenizer(
            [document.text for document in corpus if document.split == "train"], vocab_size, scratch
        )
        _replace(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    splits = ("train", "validation")
    return Prepared(
        folder=folder,
        documents={split: sum(document.split == split for document in corpus) for split in splits},
        characters={split: sum(len(d.text) for d in corpus if d.split == split) for split in splits},
        vocab_size=vocab_size,
    )


def _write_jsonl(path: Path, corpus: list[Document]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for document in corpus:
            file.write(json.dumps({"text": document.text, "source": document.name}) + "\n")


def _train_tokenizer(texts: list[str], vocab_size: int, scratch: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = [AddedToken(token, special=True, normalized=False) for token in (BOS, EOS, PAD)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocab_size:
        raise DataError(
            f"--vocab-size {vocab_size} is more than this corpus can fill "
            f"({tokenizer.get_vocab_size()}): lower it."
        )
    out = scratch / "tokenizer"
    out.mkdir()
    tokenizer.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "add_bos_token": True,
        "add_eos_token": True,
        "model_max_length": 131072,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def _replace(scratch: Path, folder: Path) -> None:
    """Put ``scratch`` in the place of ``folder``; two processes that prepare at once both end with a whole
    folder."""
    scratch.chmod(0o755)
    if folder.exists():
        old = folder.with_name(f".{folder.name}-old-{os.getpid()}")
        folder.rename(old)
        shutil.rmtree(old, ignore_errors=True)
    try:
        scratch.rename(folder)
    except OSError:
        if not is_prepared(folder):  # lost the race, and the winner's folder is whole: nothing to do
            raise
