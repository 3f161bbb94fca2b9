"""Composition: groups, dotted overrides, and one sentence for whatever does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from torchtitan.distributed.activation_checkpoint import FullAC

from titan_npu import cli
from titan_npu.config.compose import compose_job
from titan_npu.errors import ConfigError
from titan_npu.recipes.config_registry import llama3_8b, llama3_debug


def refusal(*words: str) -> str:
    with pytest.raises(ConfigError) as caught:
        compose_job(words)
    return str(caught.value)


class TestWords:
    def test_none_is_the_recipe_as_it_stands(self) -> None:
        job, recipe = compose_job([]), llama3_debug()
        assert job.recipe == "llama3_debug"
        assert job.trainer.training == recipe.training
        assert job.trainer.optimizer == recipe.optimizer
        assert job.trainer.checkpoint == recipe.checkpoint

    def test_dotted(self) -> None:
        job = compose_job(
            [
                "recipe=llama3_8b",
                "training.steps=7",
                "training.max_norm=2",
                "dump_folder=/some/where",
                "checkpoint.enable=false",
                "optimizer.param_groups.0.optimizer_kwargs.lr=1e-3",
                "dataloader.shuffle_seed=null",
            ]
        )
        config = job.trainer
        assert config.training.steps == 7
        assert config.training.max_norm == 2.0 and isinstance(config.training.max_norm, float)
        assert config.dump_folder == "/some/where"
        assert config.checkpoint.enable is False
        assert config.optimizer.param_groups[0].optimizer_kwargs["lr"] == 1e-3
        assert config.dataloader.shuffle_seed is None
        recipe = llama3_8b()  # and nothing else
        assert config.training.seq_len == recipe.training.seq_len
        assert config.model_spec.name == recipe.model_spec.name
        assert config.model_spec.flavor == "8B"

    def test_groups(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        job = compose_job(["data=parquet", "dataloader.dataset_path=/some/*.parquet", "launcher=single"])
        assert job.trainer.dataloader.dataset == "parquet"
        assert job.trainer.dataloader.dataset_path == "/some/*.parquet"
        assert job.launcher.nproc == 1
        monkeypatch.setenv("TITAN_NPU_DATA", str(tmp_path))
        job = compose_job(["recipe=llama3_8b", "data=stdlib"])
        assert Path(job.trainer.dataloader.dataset_path).is_relative_to(tmp_path)
        assert Path(job.trainer.hf_assets_path).is_relative_to(tmp_path)

    def test_choice_of_a_config_class(self) -> None:
        assert isinstance(
            compose_job(["activation_checkpoint=full"]).trainer.activation_checkpoint, FullAC.Config
        )
        assert (
            compose_job(["recipe=llama3_8b", "activation_checkpoint=none"]).trainer.activation_checkpoint
            is None
        )

    def test_recipe_of_another_registry(self) -> None:
        name = "torchtitan.models.llama3.config_registry.llama3_debugmodel"
        job = compose_job([f"recipe={name}", "training.steps=2"])
        assert job.trainer.training.steps == 2
        assert job.trainer.model_spec.flavor == "debugmodel"


class TestRefusals:
    @pytest.mark.parametrize(
        ("word", "key", "near"),
        [
            ("training.stepz=3", "training.stepz", "training.steps"),
            ("steps=3", "steps", "training.steps"),
            ("trainng.steps=3", "trainng.steps", "training.steps"),
            ("datas=jsonl", "datas", "data"),
        ],
    )
    def test_unknown_key(self, word: str, key: str, near: str) -> None:
        said = refusal(word)
        assert said.startswith(f"Unknown key {key}.")
        assert near in said.split("Nearest: ")[1].rstrip(".").split(", ")

    @pytest.mark.parametrize(
        ("word", "key", "kind", "value"),
        [
            ("training.steps=abc", "training.steps", "int", "'abc'"),
            ("training.steps=0.5", "training.steps", "int", "0.5"),
            ("training.steps=null", "training.steps", "int", "None"),
            ("training.disable_cuda_graphs=maybe", "training.disable_cuda_graphs", "bool", "'maybe'"),
            ("training.dtype=f32", "training.dtype", "bfloat16, float32", "'f32'"),
            ("dataloader.dataset=csv", "dataloader.dataset", "jsonl, parquet, text, hf", "'csv'"),
            (
                "optimizer.param_groups.0.optimizer_kwargs.lr=high",
                "optimizer.param_groups.0.optimizer_kwargs.lr",
                "float",
                "'high'",
            ),
        ],
    )
    def test_wrong_type(self, word: str, key: str, kind: str, value: str) -> None:
        said = refusal(word)
        assert said.startswith(f"{key} takes ") and kind in said and f"not {value}" in said

    @pytest.mark.parametrize(
        ("word", "because"),
        [
            ("checkpoint.keep_latest_k=1", "at least 2 checkpoint replicas"),  # TorchTitan's __post_init__
            ("validator.steps=0", "positive or -1"),
            ("checkpoint.async_mode=async_with_pinned_mem", "through CUDA"),  # ours
            ("launcher.nproc=0", "at least 1"),
            ("training.steps=-1", "training.steps is -1"),
            ("training.seq_len=0", "training.seq_len is 0"),
            ("training.local_batch_size=0", "training.local_batch_size is 0"),
            ("metrics.log_freq=0", "metrics.log_freq is 0"),
            ("validator.freq=0", "validator.freq is 0"),
        ],
    )
    def test_checks_of_the_dataclasses_run(self, word: str, because: str) -> None:
        assert because in refusal(word)

    def test_unknown_choices(self) -> None:
        assert "data=jsonll" in refusal("data=jsonll") and "Nearest: jsonl" in refusal("data=jsonll")
        assert "Nearest: full" in refusal("activation_checkpoint=fulll")
        said = refusal("recipe=llama3_8x")
        assert "llama3_8b, llama3_debug" in said and "Nearest: llama3_8b" in said

    @pytest.mark.parametrize(
        "word", ["training.steps", "~training.steps", "training.steps=1,2", "training.steps==3"]
    )
    def test_not_key_value(self, word: str) -> None:
        assert repr(word) in refusal(word)

    def test_recipes_that_are_none(self) -> None:
        assert "cannot be imported" in refusal("recipe=no.such.module")
        assert "no function without arguments" in refusal("recipe=json.loads")
        assert "returns OrderedDict" in refusal("recipe=collections.OrderedDict")


class TestCommand:
    def test_cfg_job_is_what_is_built(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["training.steps=5", "data=text", "dataloader.dataset_path=/books"]
        assert cli.main(["train", *words, "--cfg", "job"]) == 0
        printed = yaml.safe_load(capsys.readouterr().out)
        assert printed["training"]["steps"] == 5
        assert printed["dataloader"]["dataset"] == "text"
        assert printed["dataloader"]["dataset_path"] == "/books"
        assert (printed["launcher"]["nproc"], printed["launcher"]["nnodes"]) == (1, 1)

    def test_options_anywhere(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["train", "--cfg", "job", "training.steps=5"]) == 0
        assert yaml.safe_load(capsys.readouterr().out)["training"]["steps"] == 5

    def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as leaving:
            cli.main(["train", "--help"])
        assert leaving.value.code == 0
        said = capsys.readouterr().out
        for word in (
            "llama3_debug",
            "llama3_8b",
            "jsonl",
            "parquet",
            "--cfg",
            "--dry-run",
            "training.steps=30",
        ):
            assert word in said

    def test_refusal_is_one_line_and_an_exit_status(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["train", "training.steps=abc"]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == "titan-npu: training.steps takes int, not 'abc'.\n"

    def test_help_names_every_recipe(self) -> None:
        from titan_npu.config.compose import DEFAULT_RECIPE, recipe_names

        assert {word.split(" ")[0] for word in cli.RECIPES.split(", ")} == set(recipe_names())
        assert f"{DEFAULT_RECIPE} (default)" in cli.RECIPES
