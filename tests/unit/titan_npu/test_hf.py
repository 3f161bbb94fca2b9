"""Hugging Face folders out of checkpoints and back: every bit, under the names and settings of transformers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

from titan_npu.errors import CheckpointError, ConfigError, TitanNpuError
from titan_npu.hf.command import split_words
from titan_npu.hf.config_json import model_fields
from titan_npu.hf.export import export, find_checkpoint
from titan_npu.hf.load import import_weights
from titan_npu.hf.model import ModelTensors, model_tensors
from titan_npu.recipes import config_registry

RECIPES = ("llama3_debug", "deepseek_v3_debug")
DTYPES = (torch.float32, torch.bfloat16)


def small(recipe: str, tokenizer: Path, **changes: Any) -> ModelTensors:
    """The recipe's model with two layers and ``changes`` to its config."""
    config = getattr(config_registry, recipe)()
    config.hf_assets_path = str(tokenizer)
    model = config.model_spec.model
    model = dataclasses.replace(model, layers=model.layers[:2], **changes)
    config.model_spec = dataclasses.replace(config.model_spec, model=model)
    return model_tensors(recipe, config)


@pytest.fixture(params=RECIPES)
def model(request: pytest.FixtureRequest, prepared: Path) -> ModelTensors:
    return small(request.param, prepared / "tokenizer")


@pytest.fixture
def llama(prepared: Path) -> ModelTensors:
    return small("llama3_debug", prepared / "tokenizer")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """Writes a checkpoint of random weights, with an optimizer's state beside them."""

    def write(
        model: ModelTensors, dtype: torch.dtype = torch.float32, name: str = "checkpoint/step-2"
    ) -> Path:
        generator = torch.Generator().manual_seed(0)
        state = {
            key: torch.randn(tensor.shape, generator=generator).to(
                torch.float32 if key.endswith("expert_bias_E") else dtype
            )
            for key, tensor in model.native.items()
        }
        other = {"optimizer": {"state.norm.weight.step": torch.ones(())}, "train_state": {"step": 2}}
        dcp.save({**state, **other}, checkpoint_id=tmp_path / name, no_dist=True)
        return tmp_path / name

    return write


def tensors(model: ModelTensors, checkpoint: Path, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The model's tensors in a checkpoint, loaded as ``dtype``."""
    state = {
        name: torch.empty_like(
            tensor, device="cpu", dtype=torch.float32 if name.endswith("_bias_E") else dtype
        )
        for name, tensor in model.native.items()
    }
    dcp.load(state, checkpoint_id=checkpoint, no_dist=True)
    return state


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {
        name: tensor
        for path in sorted(folder.glob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }


def edit(folder: Path, **fields: Any) -> None:
    """Change fields of config.json; None deletes."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


Write = Callable[..., Path]


class TestRoundTrip:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_bit(
        self, dtype: torch.dtype, model: ModelTensors, checkpoint: Write, tmp_path: Path
    ) -> None:
        """checkpoint -> export -> import is the checkpoint; -> export again is the same files."""
        source = checkpoint(model, dtype)
        export(model, source, tmp_path / "one", file_bytes=200_000)
        made = import_weights(model, tmp_path / "one", tmp_path / "run/checkpoint")
        assert made.checkpoint == tmp_path / "run/checkpoint/step-0"
        expected, found = tensors(model, source, dtype), tensors(model, made.checkpoint, dtype)
        assert all(torch.equal(expected[name], found[name]) for name in expected)

        export(model, made.checkpoint, tmp_path / "two", file_bytes=200_000)
        names = sorted(path.name for path in (tmp_path / "one").iterdir())
        assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
        for name in names:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name

    def test_files_and_their_index(self, llama: ModelTensors, checkpoint: Write, tmp_path: Path) -> None:
        done = export(llama, checkpoint(llama), tmp_path / "out", file_bytes=1_000_000)
        files = sorted(path.name for path in done.folder.glob("*.safetensors"))
        assert len(files) == done.files > 2
        assert files[0] == f"model-00001-of-{done.files:05d}.safetensors"
        index = json.loads((done.folder / "model.safetensors.index.json").read_text())
        assert index["metadata"]["total_size"] == done.bytes == 4 * done.parameters
        for name, file in index["weight_map"].items():
            assert name in load_file(done.folder / file)
        assert {"tokenizer.json", "tokenizer_config.json", "config.json"} <= {
            p.name for p in done.folder.iterdir()
        }

    def test_dtype(self, model: ModelTensors, checkpoint: Write, tmp_path: Path) -> None:
        """Rounded once, to nearest; the bias that chooses experts stays float32."""
        source = checkpoint(model)
        export(model, source, tmp_path / "full")
        done = export(model, source, tmp_path / "half", dtype=torch.bfloat16)
        full, half = weights(tmp_path / "full"), weights(tmp_path / "half")
        assert (
            done.dtype == json.loads((tmp_path / "half/config.json").read_text())["torch_dtype"] == "bfloat16"
        )
        for name, tensor in full.items():
            kept = name.endswith("e_score_correction_bias")
            assert torch.equal(half[name], tensor if kept else tensor.bfloat16())

    def test_tied_output_layer(self, prepared: Path, checkpoint: Write, tmp_path: Path) -> None:
        """One tensor in Hugging Face's files, two equal ones in a checkpoint."""
        tied = small("llama3_debug", prepared / "tokenizer", enable_weight_tying=True)
        export(tied, checkpoint(tied), tmp_path / "out")
        assert "lm_head.weight" not in weights(tmp_path / "out")
        made = import_weights(tied, tmp_path / "out", tmp_path / "run")
        state = tensors(tied, made.checkpoint, torch.float32)
        assert torch.equal(state["lm_head.weight"], state["tok_embeddings.weight"])


class TestMeaning:
    """transformers is not here: its arithmetic is written down again, from config.json and the exported weights."""

    def test_rotary_embedding(self, llama: ModelTensors, checkpoint: Write, tmp_path: Path) -> None:
        """Scores of queries and keys, far apart, are those of TorchTitan's module."""
        source = checkpoint(llama)
        folder = export(llama, source, tmp_path / "out").folder
        config = json.loads((folder / "config.json").read_text())
        exported, native = weights(folder), tensors(llama, source, torch.float32)
        heads, groups, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
        positions = torch.arange(
            0, 6_000, 200
        )  # far enough for the slow pairs, near enough for float32 angles
        x = torch.randn(1, len(positions), config["hidden_size"], generator=torch.Generator().manual_seed(1))

        rope = llama.config.layers[0].attention.rope.build()
        q = (x @ native["layers.0.attention.qkv_linear.wq.weight"].T).unflatten(-1, (heads, size))
        k = (x @ native["layers.0.attention.qkv_linear.wk.weight"].T).unflatten(-1, (groups, size))
        q, k = rope(q, k, positions[None])
        expected = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(heads // groups, dim=2))

        angles = positions[:, None] * llama3_frequencies(config)
        cos, sin = (f(torch.cat([angles, angles], dim=-1))[None, :, None] for f in (torch.cos, torch.sin))

        def rotated(weight: torch.Tensor, count: int) -> torch.Tensor:
            y = (x @ weight.T).unflatten(-1, (count, size))
            low, high = y.chunk(2, dim=-1)
            return y * cos + torch.cat([-high, low], dim=-1) * sin

        q = rotated(exported["model.layers.0.self_attn.q_proj.weight"], heads)
        k = rotated(exported["model.layers.0.self_attn.k_proj.weight"], groups)
        found = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(heads // groups, dim=2))
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))

    def test_llama_fields(self, llama: ModelTensors, checkpoint: Write, tmp_path: Path) -> None:
        config = json.loads(
            (export(llama, checkpoint(llama), tmp_path / "out").folder / "config.json").read_text()
        )
        assert config["architectures"] == ["LlamaForCausalLM"]
        expected = {
            "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 2, "num_attention_heads": 8,
            "num_key_value_heads": 4, "head_dim": 32, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
            "vocab_size": 300, "max_position_embeddings": 131072, "torch_dtype": "float32", "bos_token_id": 0,
            "eos_token_id": 1, "tie_word_embeddings": False,
        }  # fmt: skip
        assert {name: config[name] for name in expected} == expected
        assert config["rope_scaling"] == {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }  # fmt: skip

    def test_experts(self, prepared: Path, checkpoint: Write, tmp_path: Path) -> None:
        model = small("deepseek_v3_debug", prepared / "tokenizer")
        source = checkpoint(model)
        folder = export(model, source, tmp_path / "out").folder
        exported, native = weights(folder), tensors(model, source, torch.float32)
        stacked = native["layers.1.moe.routed_experts.inner_experts.w2_EDF"]
        for expert in range(8):
            found = exported[f"model.layers.1.mlp.experts.{expert}.down_proj.weight"]
            assert torch.equal(found, stacked[expert])
        fields = model_fields(model.config, "deepseek_v3_debug")
        expected = {
            "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 1, "first_k_dense_replace": 1,
            "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "q_lora_rank": None, "kv_lora_rank": 64,
        }  # fmt: skip
        assert {name: fields[name] for name in expected} == expected


def llama3_frequencies(config: dict[str, Any]) -> torch.Tensor:
    """As the Llama 3.1 reference stretches them, piece by piece."""
    scaling, size = config["rope_scaling"], config["head_dim"]
    stretched = []
    for pair in range(size // 2):
        frequency = config["rope_theta"] ** (-2 * pair / size)
        turns = scaling["original_max_position_embeddings"] * frequency / (2 * torch.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept = min(max((turns - low) / (high - low), 0.0), 1.0)
        stretched.append(frequency * (kept + (1 - kept) / scaling["factor"]))
    return torch.tensor(stretched)


class TestFindCheckpoint:
    def test_latest_or_named(self, llama: ModelTensors, checkpoint: Write, tmp_path: Path) -> None:
        for step in (2, 10):
            checkpoint(llama, name=f"checkpoint/step-{step}")
        assert find_checkpoint(tmp_path, "checkpoint").name == "step-10"
        assert find_checkpoint(tmp_path, "checkpoint", step=2).name == "step-2"
        assert find_checkpoint(tmp_path / "checkpoint/step-2", "checkpoint").name == "step-2"
        with pytest.raises(CheckpointError, match=r"no checkpoint of step 3 .* only of 2, 10"):
            find_checkpoint(tmp_path, "checkpoint", step=3)
        with pytest.raises(CheckpointError, match=r"There is no checkpoint in .*dump_folder="):
            find_checkpoint(tmp_path / "elsewhere", "checkpoint")
        (tmp_path / "checkpoint/step-10/__0_0.distcp").unlink()
        with pytest.raises(CheckpointError, match=r"step-10 is damaged: .* is missing; .*--step"):
            find_checkpoint(tmp_path, "checkpoint")

    def test_words(self) -> None:
        assert split_words(["./run", "recipe=x"]) == (Path("run"), ["recipe=x"])
        assert split_words(["recipe=x"]) == (None, ["recipe=x"])
        with pytest.raises(ConfigError, match="a and b are two folders"):
            split_words(["a", "b"])


class TestRefusals:
    def test_export(self, llama: ModelTensors, checkpoint: Write, prepared: Path, tmp_path: Path) -> None:
        source = checkpoint(llama)
        wider = small("llama3_debug", prepared / "tokenizer")
        wider.native["norm.weight"] = torch.empty(512, device="meta")
        with pytest.raises(
            CheckpointError, match=r"norm.weight has shape \[256\] in .* and \[512\] in recipe llama3"
        ):
            export(wider, source, tmp_path / "out")
        damaged = checkpoint(llama, name="damaged/step-2")
        shard = damaged / "__0_0.distcp"
        shard.write_bytes(bytes(shard.stat().st_size))  # as long as it was, so that only reading finds out
        with pytest.raises(CheckpointError, match=r"damaged/step-2 cannot be read: .*--step"):
            export(llama, damaged, tmp_path / "out")
        other = small("deepseek_v3_debug", prepared / "tokenizer")
        with pytest.raises(
            CheckpointError, match=r"has no tensor layers.0.attention.kv_norm.weight, .* more and"
        ):
            export(other, source, tmp_path / "out")
        assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))
        (tmp_path / "full").mkdir()
        (tmp_path / "full/notes").write_text("")
        with pytest.raises(CheckpointError, match=r"full is there already: .*--out"):
            export(llama, source, tmp_path / "full")

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"num_attention_heads": 4}, r"num_attention_heads=4 and recipe llama3_debug has 8"),
            ({"rope_theta": 10000.0}, r"rope_theta=10000.0 and recipe llama3_debug has 500000.0"),
            ({"rope_scaling": None}, r"rope_scaling=None and recipe"),
            ({"model_type": "mistral"}, r"model_type=mistral and"),
            ({"rms_norm_eps": None}, r"rms_norm_eps=1e-06 and recipe llama3_debug has 1e-05"),
        ],
    )
    def test_another_config(
        self, change: dict[str, Any], said: str, llama: ModelTensors, checkpoint: Write, tmp_path: Path
    ) -> None:
        folder = export(llama, checkpoint(llama), tmp_path / "out").folder
        edit(folder, **change)
        with pytest.raises(CheckpointError, match=said):
            import_weights(llama, folder, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_config_in_the_spelling_of_transformers_5(
        self, llama: ModelTensors, checkpoint: Write, tmp_path: Path
    ) -> None:
        folder = export(llama, checkpoint(llama), tmp_path / "out").folder
        scaling = json.loads((folder / "config.json").read_text())["rope_scaling"]
        edit(folder, rope_scaling=None, rope_theta=None, rope_parameters={**scaling, "rope_theta": 500000.0})
        import_weights(llama, folder, tmp_path / "run")
        edit(folder, rope_parameters={**scaling, "rope_theta": 10000.0})
        with pytest.raises(CheckpointError, match=r"rope_theta=10000\.0"):
            import_weights(llama, folder, tmp_path / "run2")

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (
                {"model.norm.weight": None},
                r"has no tensor model.norm.weight, which recipe llama3_debug needs",
            ),
            (
                {"model.norm.weight": torch.ones(7)},
                r"model.norm.weight has shape \[7\] in .* and \[256\] in recipe",
            ),
            ({"lm_head.weight": torch.ones(9, 256)}, r"lm_head.weight has shape \[9, 256\].*hf_assets_path"),
            (
                {"model.layers.0.extra": torch.ones(1)},
                r"has the tensor model.layers.0.extra, which .* no place",
            ),
            (
                {"model.norm.weight": torch.ones(256, dtype=torch.int8)},
                r"model.norm.weight is stored as I8, and only",
            ),
            ({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}, None),
        ],
    )
    def test_other_tensors(
        self, change: dict[str, Any], said: str | None, llama: ModelTensors, checkpoint: Write, tmp_path: Path
    ) -> None:
        folder = export(llama, checkpoint(llama), tmp_path / "out").folder
        (file,) = folder.glob("*.safetensors")
        changed = {
            name: tensor for name, tensor in {**load_file(file), **change}.items() if tensor is not None
        }
        save_file(changed, file, metadata={"format": "pt"})
        if said is None:
            import_weights(llama, folder, tmp_path / "run")
        else:
            with pytest.raises(CheckpointError, match=said):
                import_weights(llama, folder, tmp_path / "run")

    def test_folders(self, llama: ModelTensors, checkpoint: Write, tmp_path: Path) -> None:
        folder = export(llama, checkpoint(llama), tmp_path / "out").folder
        (file,) = folder.glob("*.safetensors")

        def refused(said: str, source: Path = folder, run: Path = tmp_path / "run") -> None:
            with pytest.raises(TitanNpuError, match=said):
                import_weights(llama, source, run)

        refused(r"has checkpoints already \(step-2\).*another dump_folder", run=tmp_path / "checkpoint")
        refused("There is no folder", source=tmp_path / "none")
        (folder / "config.json").rename(folder / "config")
        refused(r"There is no config.json in .*number of heads")
        file.write_bytes(file.read_bytes()[:1000])
        refused(r"weights .* cannot be read .*copy or download")
        file.unlink()
        refused(r"model-00001-of-00001.safetensors is missing, and .*index.json names it")
        (folder / "model.safetensors.index.json").unlink()
        refused("There are no weights")

    def test_models_without_a_counterpart(self, prepared: Path) -> None:
        llama, deepseek = (small(recipe, prepared / "tokenizer").config for recipe in RECIPES)
        llama.layers[1].attention.n_heads = 4
        with pytest.raises(ConfigError, match=r"n_heads 8 in layer 0 and 4 in layer 1"):
            model_fields(llama, "r")
        deepseek.layers[1].moe.router.score_func = "softmax"
        with pytest.raises(ConfigError, match="scores its experts by softmax"):
            model_fields(deepseek, "r")
