"""``titan-npu import``: a checkpoint of step 0 out of a Hugging Face folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

from titan_npu.errors import CheckpointError
from titan_npu.hf import config_json
from titan_npu.hf.export import warn_of_latent_norms
from titan_npu.hf.model import ModelTensors, Tensors, listed
from titan_npu.hf.safetensors_files import Reader, size

IGNORED = (".rotary_emb.inv_freq",)
"""Ends of names that some weight files have and no model needs."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What was written: the checkpoint, its parameters and bytes."""

    checkpoint: Path
    parameters: int
    bytes: int


def import_weights(
    model: ModelTensors,
    source: Path,
    checkpoints: Path,
    *,
    report: Callable[[str], None] = lambda line: None,
) -> Imported:
    """Write the weights in ``source`` to ``checkpoints``/step-0, from which training starts with any layout.

    The weights keep their dtype; a run loads them into its own (``training.dtype``). The whole model is in memory.

    Raises CheckpointError: no folder in Hugging Face's format, another model (naming the tensor or the setting that
    differs), or a run that has begun.
    """
    taken = [child.name for child in checkpoints.glob("step-*")] if checkpoints.is_dir() else []
    if taken:
        raise CheckpointError(
            f"{checkpoints} has checkpoints already ({listed(taken)}), and training would go on from the "
            "last of them: import into another dump_folder."
        )
    if not source.is_dir():
        raise CheckpointError(f"There is no folder {source}: give one in Hugging Face's format.")
    weights = Reader(source)
    _check_tensors(model, weights, source)
    config_json.compare(source / "config.json", model.config, model.recipe)
    warn_of_latent_norms(model, report)
    report(f"reading {len(weights.shapes)} tensors")
    state: Tensors = {}
    for name, sources in model.hf_names.items():
        if sources:
            state[name] = model.from_hf(name, weights.read(sources)).contiguous()
    if model.config.enable_weight_tying:
        state["lm_head.weight"] = state["tok_embeddings.weight"]
    target = checkpoints / "step-0"
    report(f"writing {target}")
    _save(state, target)
    return Imported(target, sum(t.numel() for t in state.values()), sum(map(size, state.values())))


def _check_tensors(model: ModelTensors, weights: Reader, source: Path) -> None:
    """The folder has exactly the model's tensors, in its shapes."""
    expected = {name: list(t.shape) for name, t in model.to_hf(dict(model.native)).items()}
    missing = expected.keys() - weights.shapes.keys()
    if missing:
        raise CheckpointError(
            f"{source} has no tensor {listed(missing)}, which recipe {model.recipe} needs: take the recipe that these "
            "weights were made for."
        )
    for name, shape in expected.items():
        if weights.shapes[name] != shape:
            way_out = (
                "set hf_assets_path to the weights' own tokenizer"
                if name in ("model.embed_tokens.weight", "lm_head.weight")
                and weights.shapes[name][1:] == shape[1:]
                else "take the recipe that these weights were made for"
            )
            raise CheckpointError(
                f"The tensor {name} has shape {weights.shapes[name]} in {source} and {shape} in recipe "
                f"{model.recipe}: {way_out}."
            )
    tied = {"lm_head.weight"} if model.config.enable_weight_tying else set()
    strange = {name for name in weights.shapes if not name.endswith(IGNORED)} - expected.keys() - tied
    if strange:
        raise CheckpointError(
            f"{source} has the tensor {listed(strange)}, which recipe {model.recipe} has no place for: take the "
            "recipe that these weights were made for."
        )


def _save(state: dict[str, torch.Tensor], target: Path) -> None:
    """Save with DCP; ``target`` appears whole or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".import-", dir=target.parent))
    except OSError as error:
        raise CheckpointError(
            f"Cannot write to {target.parent}: {error.strerror}; choose another dump_folder."
        ) from error
    try:
        dcp.save(state, checkpoint_id=scratch, no_dist=True)
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
