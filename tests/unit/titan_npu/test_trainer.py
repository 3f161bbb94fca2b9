"""What the trainer checks before it builds, and how it takes signals."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
import torch

from titan_npu.config.compose import compose_job
from titan_npu.errors import ConfigError, DataError, DeviceMemoryError
from titan_npu.explain import explain
from titan_npu.trainer import NpuTrainer, StopSignals, fit_vocabulary


def composed(tokenizer: Path, *words: str) -> NpuTrainer.Config:
    config = compose_job([f"hf_assets_path={tokenizer}", *words]).trainer
    assert isinstance(config, NpuTrainer.Config)
    return config


class TestVocabulary:
    def test_from_the_tokenizer(self, prepared: Path) -> None:
        config = composed(prepared / "tokenizer")
        fit_vocabulary(config)
        with torch.device("meta"):
            model = config.model_spec.model.build()
        assert model.tok_embeddings.weight.shape[0] == model.lm_head.weight.shape[0] == 300
        assert config.loss.global_vocab_size == 300

    def test_of_a_loss_in_chunks(self, prepared: Path) -> None:
        config = composed(prepared / "tokenizer", "recipe=llama3_8b", "vocab_from_tokenizer=true")
        fit_vocabulary(config)
        assert config.loss.loss_fn.global_vocab_size == config.model_spec.model.vocab_size == 300

    def test_smaller_than_the_model_is_fine(self, prepared: Path) -> None:
        config = composed(prepared / "tokenizer", "vocab_from_tokenizer=false")
        before = config.model_spec.model.vocab_size
        fit_vocabulary(config)
        assert config.model_spec.model.vocab_size == before > 300

    def test_larger_than_the_model(self, prepared: Path) -> None:
        config = composed(prepared / "tokenizer", "recipe=llama3_8b")
        config.model_spec.model.vocab_size = 256
        with pytest.raises(ConfigError, match=r"has 300 tokens and the model llama3 8B only 256"):
            fit_vocabulary(config)

    def test_is_padded_for_tensor_parallelism(self, prepared: Path) -> None:
        degree = "parallelism.tensor_parallel_degree=7"
        with pytest.raises(
            ConfigError, match=r"7 does not divide its 300 tokens: set .* and vocab_multiple=7"
        ):
            fit_vocabulary(composed(prepared / "tokenizer", degree))
        config = composed(prepared / "tokenizer", degree, "vocab_multiple=7")
        fit_vocabulary(config)
        assert config.model_spec.model.vocab_size == config.loss.global_vocab_size == 301

    def test_no_tokenizer(self, prepared: Path, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=f"There is no tokenizer at {tmp_path}/none: set hf_assets_path"):
            fit_vocabulary(composed(tmp_path / "none"))
        broken = tmp_path / "tokenizer"
        shutil.copytree(prepared / "tokenizer", broken)
        (broken / "tokenizer.json").write_text('{"version": ')
        with pytest.raises(DataError, match=f"The tokenizer {broken}/tokenizer.json cannot be read"):
            fit_vocabulary(composed(broken))


def test_a_load_balancer_for_block_masks_is_refused() -> None:
    words = ["parallelism.context_parallel_degree=2", "parallelism.context_parallel_load_balancer=ptrr"]
    with pytest.raises(
        ConfigError, match=r"ptrr is for FlexAttention's block masks.*: take headtail, or null"
    ):
        compose_job(words)


class TestStopSignals:
    def test_first_is_a_request_and_second_interrupts(self) -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        with StopSignals() as stop:
            assert stop.received is None and stop.agree() is None
            signal.raise_signal(signal.SIGTERM)
            assert stop.received is stop.agree() is stop.agreed is signal.SIGTERM
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


class TestExplain:
    def test_out_of_memory_names_the_figures(self) -> None:
        """8 030 261 248 parameters of Llama 3 8B (Meta's figure) in float32, four times: 119.7 GiB."""
        config = compose_job(["recipe=llama3_8b", "training.seq_len=4096"]).trainer
        told = explain(torch.OutOfMemoryError("NPU out of memory. Tried to allocate 2.00 MiB"), config)
        assert isinstance(told, DeviceMemoryError)
        said = str(told)
        assert "8,030.3 M parameters take 119.7 GiB" in said
        assert "training.local_batch_size (1)" in said and "training.seq_len (4096)" in said
        total = torch.npu.mem_get_info()[1]
        assert f"the device has {total / 2**30:,.1f} GiB" in said

    def test_an_unknown_error_stays_what_it_is(self) -> None:
        config = compose_job([]).trainer
        assert explain(RuntimeError("a bug"), config) is None
        assert explain(ValueError("from a kernel"), config) is None
