"""TorchTitan's trainer, a subclass where the NPU or a clean stop needs it."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import signal
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torchtitan.components.loss import BaseLoss
from torchtitan.distributed import ParallelDims
from torchtitan.distributed import utils as dist_utils
from torchtitan.models.common.decoder import Decoder
from torchtitan.protocols.model_spec import ModelSpec
from torchtitan.trainer import Trainer

from titan_npu import environment
from titan_npu.checkpoint import NpuCheckpointManager
from titan_npu.compat import dtensor, pipelining, torch_distributed
from titan_npu.data.loader import LocalTextDataLoader
from titan_npu.data.prepare import default_folder, is_prepared, prepare
from titan_npu.data.sources import open_documents
from titan_npu.errors import ConfigError, DataError
from titan_npu.launch import rank
from titan_npu.metrics.processor import NpuMetricsProcessor, without_assumed_peak
from titan_npu.parallel.context import METHODS, Method
from titan_npu.parallel.decoder import parallelize_decoder
from titan_npu.parallel.inputs import shard_context
from titan_npu.validator import NpuValidator, local_part

logger = logging.getLogger("titan_npu")


class NpuTrainer(Trainer):
    """Trainer that stops cleanly, takes its vocabulary from the tokenizer and says what is missing in one
    sentence.

    Raises:
        DataError: no tokenizer or no data where the config says (the corpus of ``data prepare`` is made when
            missing). ConfigError: the tokenizer has more tokens than the model. SystemExit(130 or 143): from
            ``train`` after Ctrl-C or SIGTERM, when the step is done and a checkpoint is left.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(Trainer.Config):
        vocab_from_tokenizer: bool = False
        """Give the model the vocabulary size of the tokenizer instead of the recipe's"""

        vocab_multiple: int = 1
        """With vocab_from_tokenizer: round the model's vocabulary up to a multiple of this, so that tensor
        parallelism can split it"""

        context_parallel: Method = "all_gather"
        """How parallelism.context_parallel_degree shares a sequence: all_gather (of keys and values) or ulysses
        (attention heads by all-to-all)"""

        def __post_init__(self) -> None:
            Trainer.Config.__post_init__(self)
            if self.context_parallel not in METHODS:
                raise ValueError(
                    f"context_parallel is {self.context_parallel!r}, and must be one of {', '.join(METHODS)}."
                )
            parallelism = self.parallelism
            if (
                parallelism.context_parallel_degree > 1
                and parallelism.context_parallel_load_balancer == "ptrr"
            ):
                raise ValueError(
                    "context_parallel_load_balancer=ptrr is for FlexAttention's block masks, and packed attention "
                    "has none: take headtail, or null for no balancing."
                )
            # TorchTitan takes these as they come, and fails later, or divides by zero.
            for name, value in (
                ("training.steps", self.training.steps),
                ("training.seq_len", self.training.seq_len),
                ("training.local_batch_size", self.training.local_batch_size),
                ("metrics.log_freq", self.metrics.log_freq),
                ("validator.freq", self.validator.freq),
                ("vocab_multiple", self.vocab_multiple),
            ):
                if value < 1:
                    raise ValueError(f"{name} is {value}, and must be at least 1.")

    step: int

    def __init__(self, config: Config) -> None:
        torch_distributed.install()
        dtensor.install()
        environment.settle(config)
        prepare_default_data(config)
        fit_vocabulary(config)
        read_data_sets(config)
        spread_context(config)
        self._stop: StopSignals | None = None
        self._finished_step: int | None = None
        with without_assumed_peak():
            super().__init__(config)
        if isinstance(self.metrics_processor, NpuMetricsProcessor):
            soc, peak = self.metrics_processor.soc_name, self.metrics_processor.peak_flops
            logger.info(
                "device: %s%s",
                soc,
                f", {peak / 1e12:.1f} TFLOPS bfloat16" if peak else " (its peak is not known: no MFU)",
            )

    def init_distributed(self) -> ParallelDims:
        # Checkpoints agree on plans and metrics by small pickled objects: over gloo, they need no NPU stream.
        world_size = dist_utils.init_distributed(
            self.config.comm, enable_cpu_backend=True, base_folder=self.config.dump_folder
        )
        return ParallelDims.from_config(self.config.parallelism, world_size)

    def train(self) -> None:
        if isinstance(self.metrics_processor, NpuMetricsProcessor):
            self.metrics_processor.start()
        with StopSignals() as self._stop:
            super().train()
        if self._stop.agreed is not None:
            self._leave_checkpoint(f"Stopped by {self._stop.agreed.name}")
            raise SystemExit(128 + self._stop.agreed)  # as shells count it
        if (
            self._finished_step is not None and self._finished_step < self.step
        ):  # the data ended within a step
            self.step = self._finished_step
            self._leave_checkpoint("The data ended")

    def post_dataloading_process(
        self, input_dict: dict[str, torch.Tensor], labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        if not self.parallel_dims.cp_enabled:
            return super().post_dataloading_process(input_dict, labels)
        inputs, labels, keywords = shard_context(
            input_dict, labels, self.parallel_dims, self.config.parallelism, self.config.context_parallel
        )
        self.ntokens_seen += local_part(labels).numel()
        return inputs, labels, keywords

    def forward_backward_step(self, **batch: Any) -> torch.Tensor:
        # TorchTitan clones the loss and adds parts up; torch 2.13's clone of a partial DTensor is the sum over
        # all ranks already, and the loss that is logged would be counted once a rank.
        return local_part(super().forward_backward_step(**batch))

    def pp_forward_backward_step(
        self,
        *,
        input_dict_mbs: list[dict[str, torch.Tensor]],
        label_mbs: list[torch.Tensor],
        global_valid_tokens: torch.Tensor,
    ) -> torch.Tensor:
        prepared = [
            self.post_dataloading_process(batch, labels)
            for batch, labels in zip(input_dict_mbs, label_mbs, strict=True)
        ]
        losses: list[torch.Tensor] | None = [] if self.pp_has_last_stage else None
        with self.train_context():
            pipelining.run_microbatches(
                self.pp_schedule,
                arg_mbs=[(inputs,) for inputs, _, _ in prepared] if self.pp_has_first_stage else None,
                kwarg_mbs=[keywords for _, _, keywords in prepared],
                target_mbs=[labels for _, labels, _ in prepared] if self.pp_has_last_stage else None,
                losses=losses,
                loss_kwargs={"global_valid_tokens": global_valid_tokens},
            )
        if losses is None:  # what TorchTitan's metrics take from a rank without a loss
            return torch.tensor([-1.0], device=self.device)
        return torch.stack([local_part(loss.detach()) for loss in losses]).sum().to(self.device)

    def should_continue_training(self) -> bool:
        if not super().should_continue_training():
            return False
        return self._stop is None or self._stop.agree() is None

    def train_step(self, data_iterator: Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]) -> None:
        super().train_step(data_iterator)
        self._finished_step = self.step

    def _leave_checkpoint(self, why: str) -> None:
        saver = self.checkpointer
        if isinstance(saver, NpuCheckpointManager) and self.step > 0 and saver.save_now(self.step):
            logger.warning(
                "%s after step %d of %d; run the same command again to continue from %s.",
                why, self.step, self.config.training.steps, saver.path(self.step),
            )  # fmt: skip
        else:
            logger.warning("%s after step %d; checkpoints are off, so nothing is kept.", why, self.step)


class StopSignals:
    """Turns the first SIGINT or SIGTERM into a request; a second one interrupts at once, as without us.

    The ranks see a signal at different moments, or only one of them does: before each step they agree whether
    one of them has.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        """What this rank got"""
        self.agreed: signal.Signals | None = None
        """What all ranks stop for"""
        self._before: dict[signal.Signals, Any] = {}
        self._process = os.getpid()

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def agree(self) -> signal.Signals | None:
        """The signal that any rank has received, the same answer on all. Every rank must call it."""
        number = self.received or 0
        if dist.is_initialized() and dist.get_world_size() > 1:
            flag = torch.tensor(int(number))  # on the CPU: over gloo, without waiting for the NPU
            dist.all_reduce(flag, op=dist.ReduceOp.MAX)
            number = int(flag)
        self.agreed = signal.Signals(number) if number else None
        return self.agreed

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        del frame
        if os.getpid() != self._process:  # a loading worker, forked with our handlers: it ends with its rank
            return
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
        if rank.launched():  # the launcher sent it on, and has told the user, or is ending a failed run
            return
        logger.warning("%s: finishing this step, then saving (again to stop at once).", self.received.name)


def prepare_default_data(config: NpuTrainer.Config) -> None:
    """Make the standard-library corpus when this run reads it and it is not there (once, offline, under a
    minute)."""
    folder = default_folder()
    reads = (config.hf_assets_path, config.dataloader.dataset_path)
    if is_prepared(folder) or not any(path and Path(path).is_relative_to(folder) for path in reads):
        return
    logger.info("There is no data yet: preparing it in %s (titan-npu data prepare does the same).", folder)
    prepare(folder)


def read_data_sets(config: NpuTrainer.Config) -> None:
    """Open the data sets of this run, so that what is wrong with them is said before the device starts.

    The first reading of new files is also the one in which ``datasets`` rewrites all variables of the
    environment; see titan_npu.environment. Later ones find its cache. Raises DataError.
    """
    loaders = [config.dataloader, *([config.validator.dataloader] if config.validator.enable else [])]
    for loader in loaders:
        if isinstance(loader, LocalTextDataLoader.Config):
            open_documents(loader.dataset, loader.dataset_path, loader.text_column, loader.split)


def spread_context(config: NpuTrainer.Config) -> None:
    """Give the method of context parallelism to the model's parallelize function and to the validator."""
    spec = config.model_spec
    if spec is not None and spec.parallelize_fn is parallelize_decoder:
        spread = functools.partial(parallelize_decoder, context_parallel=config.context_parallel)
        config.model_spec = dataclasses.replace(spec, parallelize_fn=spread)
    if isinstance(config.validator, NpuValidator.Config):
        config.validator = dataclasses.replace(config.validator, context_parallel=config.context_parallel)


def fit_vocabulary(config: NpuTrainer.Config) -> None:
    """Check the tokenizer and make model and loss agree with its size."""
    from tokenizers import Tokenizer

    path = Path(config.hf_assets_path)
    file = path / "tokenizer.json"
    if not path.is_dir():
        raise DataError(
            f"There is no tokenizer at {config.hf_assets_path}: set hf_assets_path to a folder with "
            f"tokenizer.json "
            "(titan-npu data prepare makes one)."
        )
    spec = config.model_spec
    if not file.is_file() or spec is None or not isinstance(spec.model, Decoder.Config):
        return  # TorchTitan's tokenizer knows other files too, and says what it looked for
    try:
        tokens = Tokenizer.from_file(str(file)).get_vocab_size()
    except Exception as error:  # the tokenizers library raises a bare Exception
        raise DataError(f"The tokenizer {file} cannot be read: {error}.") from error
    if config.vocab_from_tokenizer:
        size = -(-tokens // config.vocab_multiple) * config.vocab_multiple
        config.model_spec = with_vocabulary(spec, size)
        config.loss = loss_with_vocabulary(config.loss, size)
    elif tokens > spec.model.vocab_size:
        raise ConfigError(
            f"The tokenizer at {path} has {tokens} tokens and the model {spec.name} {spec.flavor} only "
            f"{spec.model.vocab_size}: give its own tokenizer (hf_assets_path), or set "
            f"vocab_from_tokenizer=true."
        )
    size = config.model_spec.model.vocab_size
    degree = config.parallelism.tensor_parallel_degree
    if size % degree:
        raise ConfigError(
            f"Tensor parallelism over {degree} ranks splits the vocabulary, and {degree} does not divide its "
            f"{size} tokens: set vocab_from_tokenizer=true and vocab_multiple={degree} (it is padded then), or "
            "another parallelism.tensor_parallel_degree."
        )


def with_vocabulary(spec: ModelSpec, tokens: int) -> ModelSpec:
    """``spec`` with a vocabulary of ``tokens``: embedding, output layer and the model's own field."""
    model = spec.model
    assert isinstance(model, Decoder.Config)
    resized = dataclasses.replace(
        model,
        vocab_size=tokens,
        tok_embeddings=dataclasses.replace(model.tok_embeddings, num_embeddings=tokens),
        lm_head=dataclasses.replace(model.lm_head, out_features=tokens),
    )
    return dataclasses.replace(spec, model=resized)


def loss_with_vocabulary(loss: BaseLoss.Config, tokens: int) -> BaseLoss.Config:
    """``loss`` (or the loss that it wraps) for a vocabulary of ``tokens``."""
    if hasattr(loss, "global_vocab_size"):
        return dataclasses.replace(loss, global_vocab_size=tokens)
    if hasattr(loss, "loss_fn"):
        return dataclasses.replace(loss, loss_fn=loss_with_vocabulary(loss.loss_fn, tokens))
    return loss
