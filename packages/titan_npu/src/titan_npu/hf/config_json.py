"""``config.json``: the model as ``transformers`` builds it, from TorchTitan's config; and the two compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchtitan.models.common.attention import GQAttention
from torchtitan.models.common.decoder import Decoder
from torchtitan.models.common.feed_forward import FeedForward
from torchtitan.models.common.moe import MoE
from torchtitan.models.common.rope import ComplexRoPE, RoPE
from torchtitan.models.deepseek_v3.model import Attention as LatentAttention
from torchtitan.models.deepseek_v3.model import DeepSeekV3Model
from torchtitan.models.llama3.model import Llama3Model

from titan_npu.errors import CheckpointError, ConfigError

Json = dict[str, Any]

LATENT_NORM_EPS = 1e-6
"""What transformers' DeepseekV3ForCausalLM gives the norms of its latents, whatever the config says."""

DEFAULTS: Json = {
    "model_type": None,
    "num_attention_heads": None,
    "num_key_value_heads": None,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "rope_interleave": True,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
"""Fields that change what a model computes and that its tensors' shapes do not give away, with transformers'
values for a ``config.json`` that leaves them out."""


def model_fields(model: Decoder.Config, recipe: str) -> Json:
    """The fields of config.json that describe the model.

    Raises ConfigError when transformers' class would compute something else, naming the setting.
    """
    if isinstance(model, DeepSeekV3Model.Config):
        fields = _deepseek_v3(model, recipe)
    elif isinstance(model, Llama3Model.Config):
        fields = _llama(model, recipe)
    else:
        raise ConfigError(
            f"The model of recipe {recipe} ({type(model).__qualname__}) has no config.json here: export and "
            "import know Llama 3 and DeepSeek-V3."
        )
    return {
        **fields,
        "hidden_size": model.dim,
        "num_hidden_layers": len(model.layers),
        "vocab_size": model.vocab_size,
        "rms_norm_eps": _common(
            recipe,
            "norm eps",
            [model.norm.eps, *(n.eps for x in model.layers for n in (x.attention_norm, x.ffn_norm))],
        ),
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": model.enable_weight_tying,
        "use_cache": True,
    }


def compare(path: Path, model: Decoder.Config, recipe: str) -> None:
    """Check that ``config.json`` at ``path`` describes the recipe's model in what shapes do not tell.

    Raises CheckpointError naming the first field that differs.
    """
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise CheckpointError(
            f"There is no {path.name} in {path.parent}: without it the number of heads and the rotary embedding of "
            "the weights are not known; copy it from where the weights came from."
        ) from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}): copy it again.") from error
    expected = model_fields(model, recipe)
    read = _normal(found)
    for name in DEFAULTS:
        if name in expected and not _same(read.get(name), _normal(expected)[name]):
            raise CheckpointError(
                f"{path} says {name}={read.get(name)} and recipe {recipe} has {_normal(expected)[name]}: take "
                "the recipe and settings that these weights were made for."
            )


def _llama(model: Llama3Model.Config, recipe: str) -> Json:
    attentions = [layer.attention for layer in model.layers]
    attention = attentions[0]
    if not all(isinstance(x, GQAttention.Config) for x in attentions) or attention.qk_norm is not None:
        raise ConfigError(
            f"Recipe {recipe} has another attention than Llama's, which LlamaForCausalLM cannot compute: such a "
            "model cannot be exported or imported."
        )
    heads = _common(recipe, "n_heads", [x.n_heads for x in attentions])
    rope: RoPE.Config = _common(recipe, "rope", [x.rope for x in attentions])
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_key_value_heads": _common(recipe, "n_kv_heads", [x.n_kv_heads for x in attentions]) or heads,
        "head_dim": _common(recipe, "head_dim", [x.head_dim for x in attentions]) or model.dim // heads,
        "intermediate_size": _width(recipe, [layer.feed_forward for layer in model.layers]),
        "mlp_bias": False,
        "pretraining_tp": 1,
        **_rope(rope, recipe, yarn=None),
    }


def _deepseek_v3(model: DeepSeekV3Model.Config, recipe: str) -> Json:
    attentions = [layer.attention for layer in model.layers]
    dense = [layer.feed_forward for layer in model.layers if layer.moe is None]
    experts = [layer.moe for layer in model.layers if layer.moe is not None]
    if any(layer.moe is not None for layer in model.layers[: len(dense)]) or not experts:
        raise ConfigError(
            f"Recipe {recipe} does not have its dense layers first and experts in all others, as "
            "DeepseekV3ForCausalLM has: such a model cannot be exported or imported."
        )
    if model.mtp_layers:
        raise ConfigError(
            f"Recipe {recipe} predicts several tokens (mtp_layers), which DeepseekV3ForCausalLM does not: such a "
            "model cannot be exported or imported."
        )

    def each(name: str) -> Any:
        return _common(recipe, name, [getattr(x, name) for x in attentions])

    heads = each("n_heads")
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "q_lora_rank": each("q_lora_rank") or None,
        **{
            name: each(name)
            for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        },
        "intermediate_size": _width(recipe, dense) if dense else model.dim,
        "first_k_dense_replace": len(dense),
        "moe_layer_freq": 1,
        **_experts(recipe, experts),
        "rope_interleave": True,
        **_rope(each("rope"), recipe, yarn=each("mscale")),
    }


def _experts(recipe: str, layers: list[MoE.Config]) -> Json:
    routers = [layer.router for layer in layers]

    def each(name: str) -> Any:
        return _common(recipe, name, [getattr(router, name) for router in routers])

    if each("score_func") != "sigmoid":
        raise ConfigError(
            f"Recipe {recipe} scores its experts by {each('score_func')}, and DeepseekV3ForCausalLM only by "
            "sigmoid: such a model cannot be exported or imported."
        )
    width = _common(recipe, "moe hidden_dim", [x.routed_experts.inner_experts.hidden_dim for x in layers])
    shared = _width(recipe, [layer.shared_experts for layer in layers])
    if shared % width:
        raise ConfigError(
            f"Recipe {recipe} has shared experts of width {shared}, no multiple of the routed experts' {width}, which "
            "DeepseekV3ForCausalLM needs: such a model cannot be exported or imported."
        )
    return {
        "moe_intermediate_size": width,
        "n_routed_experts": _common(recipe, "num_experts", [layer.num_experts for layer in layers]),
        "n_shared_experts": shared // width,
        "num_experts_per_tok": each("top_k"),
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "norm_topk_prob": each("route_norm"),
        "routed_scaling_factor": each("route_scale"),
        "n_group": each("num_expert_groups") or 1,
        "topk_group": each("num_limited_groups") or 1,
    }


def _rope(rope: RoPE.Config, recipe: str, yarn: float | None) -> Json:
    """rope_theta, rope_scaling and max_position_embeddings; ``yarn`` is the model's mscale where it has one."""
    scaling: Json | None
    if not isinstance(rope, ComplexRoPE.Config):
        raise ConfigError(
            f"Recipe {recipe} has a {type(rope).__qualname__}, and TorchTitan's conversion assumes ComplexRoPE: such a "
            "model cannot be exported or imported."
        )
    if rope.scaling == "none" or (rope.scaling == "yarn" and rope.rope_factor <= 1.0):
        scaling = None
    elif rope.scaling == "llama":
        scaling = {
            "rope_type": "llama3",
            "factor": rope.scaling_factor,
            "low_freq_factor": rope.low_freq_factor,
            "high_freq_factor": rope.high_freq_factor,
            "original_max_position_embeddings": rope.original_max_position_embeddings,
        }
    elif yarn is not None and rope.truncate:
        scaling = {
            "rope_type": "yarn",
            "type": "yarn",
            "factor": rope.rope_factor,
            "beta_fast": rope.beta_fast,
            "beta_slow": rope.beta_slow,
            "original_max_position_embeddings": rope.original_seq_len,
            # Equal, so that they cancel in the rotation: TorchTitan scales the scores alone.
            "mscale": yarn,
            "mscale_all_dim": yarn,
        }
    else:
        raise ConfigError(
            f"Recipe {recipe} stretches its rotary embedding by {rope.scaling} as transformers does not: such a model "
            "cannot be exported or imported."
        )
    return {
        "rope_theta": float(rope.theta),
        "rope_scaling": scaling,
        "max_position_embeddings": rope.max_seq_len,
    }


def _width(recipe: str, layers: list[FeedForward.Config | None]) -> int:
    width: int = _common(recipe, "hidden_dim", [x.w1.out_features if x else 0 for x in layers])
    return width


def _common(recipe: str, name: str, values: list[Any]) -> Any:
    """The value that all layers have."""
    for number, value in enumerate(values):
        if value != values[0]:
            raise ConfigError(
                f"Recipe {recipe} has {name} {values[0]} in layer 0 and {value} in layer {number}, and Hugging Face's "
                "config.json has one for all: such a model cannot be exported or imported."
            )
    return values[0]


def _normal(config: Json) -> Json:
    """``config`` with defaults filled in, and the rotary embedding in the spelling of transformers 4."""
    parameters = config.get("rope_parameters") or {}  # transformers 5
    normal = {**DEFAULTS, **{"rope_theta": parameters.get("rope_theta", 10000.0)}, **config}
    scaling = normal["rope_scaling"] or {k: v for k, v in parameters.items() if k != "rope_theta"}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    kept = {
        k: v for k, v in scaling.items() if k not in ("type", "rope_type", "attention_factor", "truncate")
    }
    normal["rope_scaling"] = None if kind == "default" else {"rope_type": kind, **kept}
    if normal["num_key_value_heads"] is None:
        normal["num_key_value_heads"] = normal["num_attention_heads"]
    return normal


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) <= 1e-9 * abs(one)
    return bool(one == other)


def latent_norm_eps(model: Decoder.Config) -> float | None:
    """The eps of the latents' norms of a DeepSeek-V3 where transformers would take another; None otherwise."""
    for layer in model.layers:
        attention = layer.attention
        if isinstance(attention, LatentAttention.Config) and attention.kv_norm.eps != LATENT_NORM_EPS:
            return float(attention.kv_norm.eps)
    return None
