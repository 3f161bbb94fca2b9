"""Weight files of a Hugging Face folder: model-00001-of-0000N.safetensors and their index."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from titan_npu.errors import CheckpointError

INDEX = "model.safetensors.index.json"

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""safetensors' names of the dtypes that are weights as they stand, not quantized ones."""


class Reader:
    """The weight files of a folder as one set of tensors, read one tensor at a time.

    Raises CheckpointError when there are none, or one is damaged, missing or quantized.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, list[int]] = {}
        for path in self._find():
            try:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():  # noqa: SIM118 (no mapping)
                        part = file.get_slice(name)
                        self._files[name] = path
                        self.shapes[name] = list(part.get_shape())
                        self._check_dtype(name, part.get_dtype())
            except (SafetensorError, OSError) as error:
                raise CheckpointError(
                    f"The weights {path} cannot be read ({error}): copy or download that file again."
                ) from error

    def read(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        tensors = {}
        for name in names:
            with safe_open(self._files[name], framework="pt") as file:
                tensors[name] = file.get_tensor(name)
        return tensors

    def _find(self) -> list[Path]:
        index = self._folder / INDEX
        if index.is_file():
            try:
                paths = sorted(
                    {self._folder / name for name in json.loads(index.read_text())["weight_map"].values()}
                )
            except (ValueError, KeyError, AttributeError) as error:
                raise CheckpointError(f"The index {index} is no list of weights: copy it again.") from error
        else:
            paths = sorted(self._folder.glob("*.safetensors"))
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise CheckpointError(f"{missing[0]} is missing, and {index} names it: copy the folder again.")
        if not paths:
            raise CheckpointError(
                f"There are no weights (*.safetensors) in {self._folder}: give a folder in Hugging Face's format, "
                "such as titan-npu export writes."
            )
        return paths

    @staticmethod
    def _check_dtype(name: str, dtype: str) -> None:
        if dtype not in DTYPES:
            raise CheckpointError(
                f"The tensor {name} is stored as {dtype}, and only {', '.join(DTYPES)} are read: convert the "
                "weights to bfloat16 first."
            )


def size(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> int:
    """Bytes of ``tensor``, or of it in another dtype."""
    return tensor.numel() * (dtype or tensor.dtype).itemsize


def file_name(number: int, count: int) -> str:
    return f"model-{number + 1:05d}-of-{count:05d}.safetensors"


def write(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, path, metadata={"format": "pt"})  # what transformers asks a file's metadata for
    path.chmod(0o644)  # safetensors makes files that only their owner reads


def write_index(folder: Path, files: dict[str, str], total: int) -> None:
    """The index: the file of each tensor, and the bytes of all. Written for a single file too: TorchTitan
    recognises a checkpoint by it."""
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(files.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")
