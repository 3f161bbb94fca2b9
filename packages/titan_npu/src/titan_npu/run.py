"""Building and running a composed job in this process."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from pathlib import Path

import torch
from torchtitan.observability import structured_logger
from torchtitan.trainer import Trainer

from titan_npu.config.compose import Job
from titan_npu.explain import explain
from titan_npu.launch import rank
from titan_npu.metrics.processor import NpuMetricsProcessor

logger = logging.getLogger("titan_npu")


def run(job: Job, *, dry_run: bool = False) -> None:
    """Build the trainer of ``job`` and train; with ``dry_run`` build everything and take no step.

    Raises a TitanNpuError where the user can act on what went wrong.
    """
    torch._C._set_print_stack_traces_on_fatal_signal(True)  # a crash in native code says where
    config = job.trainer
    if dry_run:
        config = _without_traces(config)
    structured_logger.init_structured_logger(
        source="training",
        output_dir=config.dump_folder,
        enable=config.debug.enable_structured_logging and not dry_run,
    )
    trainer: Trainer | None = None
    try:
        trainer = config.build()
        if dry_run:
            _describe(job, trainer)
        elif config.checkpoint.create_seed_checkpoint:
            trainer.checkpointer.save(0, last_step=True)
            logger.info("seed checkpoint: %s", Path(config.dump_folder) / config.checkpoint.folder / "step-0")
        else:
            _announce(job, trainer)
            trainer.train()
            _conclude(trainer)
    except Exception as error:
        known = explain(error, config)
        rank.record(error, None if known is None else str(known))  # before anything that may wait for others
        with contextlib.suppress(Exception):  # what fails after a failure follows from it, and would hide it
            _close(trainer)
        trainer = None
        if known is not None:
            raise known from error
        raise
    finally:
        if trainer is not None:
            _close(trainer)


def _close(trainer: Trainer | None) -> None:
    try:
        if trainer is not None:
            trainer.close()
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _without_traces(config: Trainer.Config) -> Trainer.Config:
    metrics = dataclasses.replace(config.metrics, enable_tensorboard=False)
    if isinstance(metrics, NpuMetricsProcessor.Config):
        metrics = dataclasses.replace(metrics, enable_jsonl=False)
    return dataclasses.replace(config, metrics=metrics)


def _announce(job: Job, trainer: Trainer) -> None:
    training = job.trainer.training
    parameters = sum(p.numel() for part in trainer.model_parts for p in part.parameters())
    dims = trainer.parallel_dims
    rows = training.local_batch_size * trainer.gradient_accumulation_steps * dims.dp_replicate * dims.dp_shard
    logger.info(
        "%s: %.2f M parameters%s, %d x %d tokens a step, %d steps, writing to %s",
        job.recipe, parameters / 1e6, f" on {dims.world_size} ranks" if dims.world_size > 1 else "", rows,
        training.seq_len, training.steps, job.trainer.dump_folder,
    )  # fmt: skip


def _describe(job: Job, trainer: Trainer) -> None:
    _announce(job, trainer)
    inputs, labels = next(iter(trainer.dataloader))
    logger.info(
        "dry run: a batch has %d rows of %d tokens from %d documents; nothing was trained.",
        *labels.shape,
        int((inputs["positions"] == 0).sum()),
    )


def _conclude(trainer: Trainer) -> None:
    config = trainer.config
    folder = Path(config.dump_folder)
    if isinstance(trainer.metrics_processor, NpuMetricsProcessor) and config.metrics.enable_jsonl:
        logger.info("metrics: %s", trainer.metrics_processor.jsonl_path)
    if config.metrics.enable_tensorboard:
        logger.info("TensorBoard: %s", folder / config.metrics.save_tb_folder)
    if config.checkpoint.enable:
        logger.info("checkpoint: %s", folder / config.checkpoint.folder / f"step-{trainer.step}")
