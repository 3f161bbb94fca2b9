"""The tensors of a recipe's model, under TorchTitan's names and under Hugging Face's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torchtitan.models.common.decoder import Decoder
from torchtitan.protocols.state_dict_adapter import BaseStateDictAdapter
from torchtitan.trainer import Trainer

from titan_npu.errors import ConfigError
from titan_npu.trainer import fit_vocabulary

Tensors = dict[str, torch.Tensor]

MANY = 3
"""Names that an error lists before it counts the rest."""


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """A model by its tensors.

    Attributes:
        recipe: what the user calls it. config: the model's own config. tokenizer: folder of its tokenizer.
        native: TorchTitan's names to tensors on the meta device. hf_names: each native name to the names of
        the Hugging Face tensors it becomes: one; several for stacked experts; none for a tied output layer.
    """

    recipe: str
    config: Decoder.Config
    adapter: BaseStateDictAdapter
    tokenizer: Path
    native: Tensors
    hf_names: dict[str, list[str]]

    def to_hf(self, tensors: Tensors) -> Tensors:
        """The Hugging Face tensors of some of the native ones."""
        converted: Tensors = self.adapter.to_hf(tensors)
        return converted

    def from_hf(self, name: str, tensors: Tensors) -> torch.Tensor:
        """The native tensor ``name`` out of the Hugging Face tensors ``hf_names[name]``."""
        if self.config.enable_weight_tying:
            # An adapter takes a missing output layer from the embedding, which is not among these tensors.
            tensors = {"lm_head.weight": self.native["lm_head.weight"], **tensors}
        converted: Tensors = self.adapter.from_hf(tensors)
        return converted[name]


def model_tensors(recipe: str, config: Trainer.Config) -> ModelTensors:
    """The tensors of the model that ``config`` trains; nothing is allocated.

    Raises ConfigError when the model has no counterpart in Hugging Face's format, DataError when the tokenizer
    that gives the vocabulary is not there.
    """
    fit_vocabulary(config)
    spec = config.model_spec
    if spec is None or spec.state_dict_adapter is None or not isinstance(spec.model, Decoder.Config):
        raise ConfigError(
            f"The model of recipe {recipe} has no Hugging Face format (its model_spec has no "
            "state_dict_adapter): export and import know decoders such as llama3_debug."
        )
    with torch.device("meta"):
        native = dict(spec.model.build().state_dict())
    adapter = spec.state_dict_adapter(spec.model, None)
    hf_names = {name: list(_to_hf(adapter, name, tensor)) for name, tensor in native.items()}
    tied = {"lm_head.weight"} if spec.model.enable_weight_tying else set()
    homeless = [name for name, targets in hf_names.items() if not targets and name not in tied]
    if homeless:
        raise ConfigError(
            f"{listed(homeless)} of recipe {recipe} {'has' if len(homeless) == 1 else 'have'} no name in "
            f"Hugging Face's {spec.name} format: such a model cannot be exported or imported."
        )
    return ModelTensors(recipe, spec.model, adapter, Path(config.hf_assets_path), native, hf_names)


def _to_hf(adapter: BaseStateDictAdapter, name: str, tensor: torch.Tensor) -> Tensors:
    try:
        converted: Tensors = adapter.to_hf({name: tensor})
    except KeyError:  # how adapters say that they do not know a name
        return {}
    return converted


def listed(names: Iterable[str]) -> str:
    """A few names as a part of a sentence."""
    names = sorted(names)
    rest = len(names) - MANY
    return ", ".join(names[:MANY]) + (f" and {rest} more" if rest > 0 else "")


def shape(tensor: torch.Tensor) -> str:
    return f"[{', '.join(map(str, tensor.shape))}]"
