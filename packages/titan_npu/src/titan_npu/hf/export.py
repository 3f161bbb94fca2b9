"""``titan-npu export``: a Hugging Face folder out of a checkpoint of any layout."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from titan_npu.checkpoint.integrity import METADATA, damage, saved_steps
from titan_npu.checkpoint.manager import reason_of
from titan_npu.errors import CheckpointError
from titan_npu.hf import config_json, tokenizer_files
from titan_npu.hf.model import ModelTensors, Tensors, listed, shape
from titan_npu.hf.safetensors_files import file_name, size, write, write_index

FILE_BYTES = 5_000_000_000
"""About how large a weight file becomes before the next is begun."""

FULL_PRECISION = ("e_score_correction_bias",)
"""Tensors that stay float32 in every export, as in DeepSeek's own: a bias that decides between near-equal scores."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the folder, from which checkpoint, parameters, weight files and their bytes, the dtype."""

    folder: Path
    checkpoint: Path
    parameters: int
    files: int
    bytes: int
    dtype: str


def find_checkpoint(place: Path, folder: str, step: int | None = None) -> Path:
    """The checkpoint at ``place``: itself one, or a run's dump folder with checkpoints in ``folder``.

    Takes the latest unless ``step`` says which. Raises CheckpointError when there is none, or it is damaged.
    """
    if (place / METADATA).is_file():
        if step is not None:
            raise CheckpointError(
                f"{place} is one checkpoint, and --step {step} chooses among a run's: leave it out."
            )
        found = place
    else:
        steps = saved_steps(place / folder)
        if not steps:
            raise CheckpointError(
                f"There is no checkpoint in {place / folder}: name a run's folder (dump_folder=...) or a checkpoint "
                "(.../step-N)."
            )
        if step is not None and step not in steps:
            raise CheckpointError(
                f"There is no checkpoint of step {step} in {place / folder}, only of {', '.join(map(str, steps))}."
            )
        found = place / folder / f"step-{steps[-1] if step is None else step}"
    problem = damage(found)
    if problem:
        raise CheckpointError(f"The checkpoint {found} is damaged: {problem}; take another one with --step.")
    return found


def export(
    model: ModelTensors,
    checkpoint: Path,
    out: Path,
    *,
    dtype: torch.dtype | None = None,
    file_bytes: int = FILE_BYTES,
    report: Callable[[str], None] = lambda line: None,
) -> Exported:
    """Write the model of ``checkpoint`` to ``out`` as ``transformers`` reads it, with config.json and tokenizer.

    Args:
        dtype: of the weights; None keeps the checkpoint's, bit for bit. file_bytes: size at which another file is
            begun; about twice as much memory is used.

    Raises:
        CheckpointError: the checkpoint is of another model, naming a tensor and both shapes. ConfigError: see
            ``config_json.model_fields``.
    """
    fields = config_json.model_fields(model.config, model.recipe)
    stored = _stored_tensors(model, checkpoint)
    warn_of_latent_norms(model, report)
    out = out.expanduser().absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CheckpointError(
            f"{out} is there already: choose another folder with --out, or delete it first."
        )
    scratch = _scratch_folder(out)
    try:
        plan = list(_files(model, stored, dtype, file_bytes))
        index: dict[str, str] = {}
        total = 0
        for number, names in enumerate(plan):
            report(f"file {number + 1} of {len(plan)}")
            tensors = {
                name: _in_dtype(name, tensor, dtype)
                for name, tensor in _read(model, stored, names, checkpoint)
            }
            write(scratch / file_name(number, len(plan)), tensors)
            index |= dict.fromkeys(tensors, file_name(number, len(plan)))
            total += sum(map(size, tensors.values()))
        write_index(scratch, index, total)
        written = dtype or stored["tok_embeddings.weight"].dtype
        fields |= tokenizer_files.special_tokens(model.tokenizer)
        fields["torch_dtype"] = str(written).removeprefix("torch.")
        (scratch / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
        tokenizer_files.copy(model.tokenizer, scratch)
        if out.exists():
            out.rmdir()
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    parameters = sum(tensor.numel() for tensor in model.native.values())
    return Exported(out, checkpoint, parameters, len(plan), total, fields["torch_dtype"])


def warn_of_latent_norms(model: ModelTensors, report: Callable[[str], None]) -> None:
    eps = config_json.latent_norm_eps(model.config)
    if eps is not None:
        report(
            f"note: transformers gives the norms of the latents eps={config_json.LATENT_NORM_EPS}, recipe "
            f"{model.recipe} eps={eps}: outputs differ slightly where latents are small."
        )


def _stored_tensors(model: ModelTensors, checkpoint: Path) -> Tensors:
    """The model's tensors as the checkpoint has them, on the meta device; checked against the recipe's."""
    found = FileSystemReader(checkpoint).read_metadata().state_dict_metadata
    missing = [name for name in model.native if not isinstance(found.get(name), TensorStorageMetadata)]
    if missing:
        raise CheckpointError(
            f"The checkpoint {checkpoint} has no tensor {listed(missing)} and recipe {model.recipe} does: give the "
            "recipe and the settings of the run that wrote it."
        )
    stored = {}
    for name, expected in model.native.items():
        metadata = found[name]
        assert isinstance(metadata, TensorStorageMetadata)
        stored[name] = torch.empty(metadata.size, dtype=metadata.properties.dtype, device="meta")
        if stored[name].shape != expected.shape:
            raise CheckpointError(
                f"The tensor {name} has shape {shape(stored[name])} in the checkpoint {checkpoint} and "
                f"{shape(expected)} in recipe {model.recipe}: give the recipe and the settings (hf_assets_path too) "
                "of the run that wrote it."
            )
    return stored


def _files(
    model: ModelTensors, stored: Tensors, dtype: torch.dtype | None, file_bytes: int
) -> Iterator[list[str]]:
    """Native names for each weight file, in the model's order."""
    names: list[str] = []
    filled = 0
    for name, tensor in stored.items():
        if not model.hf_names[name]:  # tied to another one
            continue
        if names and filled + size(tensor, dtype) > file_bytes:
            yield names
            names, filled = [], 0
        names.append(name)
        filled += size(tensor, dtype)
    yield names


def _read(
    model: ModelTensors, stored: Tensors, names: list[str], checkpoint: Path
) -> Iterator[tuple[str, torch.Tensor]]:
    """The Hugging Face tensors of some native names, read from the checkpoint."""
    native = {name: torch.empty_like(stored[name], device="cpu") for name in names}
    try:
        dcp.load(native, checkpoint_id=checkpoint, no_dist=True)
    except (Exception, CheckpointException) as error:  # DCP's is no Exception
        raise CheckpointError(
            f"The checkpoint {checkpoint} cannot be read: {reason_of(error)}; take another one with --step."
        ) from error
    while native:
        name = next(iter(native))
        yield from model.to_hf({name: native.pop(name)}).items()


def _in_dtype(name: str, tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor if dtype is None or name.endswith(FULL_PRECISION) else tensor.to(dtype)


def _scratch_folder(out: Path) -> Path:
    """A folder beside ``out``, so that it appears whole or not at all."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise CheckpointError(
            f"Cannot write to {out.parent}: {error.strerror}; choose another folder with --out."
        ) from error
    scratch.chmod(0o755)
    return scratch
