"""TorchTitan's metrics processor with our console, a JSONL file and MFU from the SoC's own peak."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch.distributed as dist
from torchtitan.components.metrics import MetricsProcessor, _get_metrics_rank
from torchtitan.distributed import ParallelDims

from titan_npu.metrics.console import StepReport, build_console
from titan_npu.metrics.jsonl import JsonlWriter
from titan_npu.metrics.soc import bf16_peak_flops

logger = logging.getLogger("titan_npu")


class NpuMetricsProcessor(MetricsProcessor):
    """Reports loss, gradient norm, tokens/s, memory and remaining time per logged step."""

    @dataclass(kw_only=True, slots=True)
    class Config(MetricsProcessor.Config):
        progress: Literal["auto", "live", "plain"] = "auto"
        """Console: a live line on a terminal, or a plain line a step (auto chooses)"""

        enable_jsonl: bool = True
        """Whether to write one JSON object a logged step to jsonl_file"""

        jsonl_file: str = "metrics.jsonl"
        """JSONL file, relative to the dump folder"""

    def __init__(
        self,
        config: Config,
        *,
        parallel_dims: ParallelDims,
        dump_folder: str = "./outputs",
        pp_schedule: str = "1F1B",
        config_dict: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            config,
            parallel_dims=parallel_dims,
            dump_folder=dump_folder,
            pp_schedule=pp_schedule,
            config_dict=config_dict,
            **kwargs,
        )
        self.soc_name = self.device_memory_monitor.device_name
        self.peak_flops = bf16_peak_flops(self.soc_name)
        # The base class assumed an A100 here; an infinite peak makes any MFU that it works out 0, never a
        # figure.
        self.gpu_peak_flops = self.peak_flops or math.inf
        self._total_steps = int((config_dict or {}).get("training", {}).get("steps", 0))
        self._step_seconds: float | None = None
        self._last_step: int | None = None
        self._reports = dist.get_rank() == _get_metrics_rank(
            parallel_dims=parallel_dims, pp_schedule=pp_schedule
        )
        self._console = build_console(config.progress)
        self.jsonl_path = Path(dump_folder) / config.jsonl_file
        self._jsonl = JsonlWriter(self.jsonl_path) if config.enable_jsonl else None

    def start(self) -> None:
        """Begin timing: what came before (building, loading) is not a step's."""
        self.ntokens_since_last_log = 0
        self.data_loading_times.clear()
        self.time_last_log = time.perf_counter()
        self.device_memory_monitor.reset_peak_stats()

    def log(
        self,
        step: int,
        global_avg_loss: float,
        global_max_loss: float,
        grad_norm: float,
        extra_metrics: dict[str, Any] | None = None,
    ) -> None:
        """See MetricsProcessor.log; losses in nats per token, memory in GiB, times in seconds."""
        now = time.perf_counter()
        seconds = now - self.time_last_log
        step_seconds = seconds / (step - self._last_step if self._last_step is not None else 1)
        before = step_seconds if self._step_seconds is None else self._step_seconds
        self._step_seconds = 0.7 * before + 0.3 * step_seconds
        memory = self.device_memory_monitor.get_peak_stats()
        tps = self.ntokens_since_last_log / (seconds * self.parallel_dims.non_data_parallel_size)
        flops = self.num_flops_per_token * tps
        # The peak is bfloat16's: with quantized matmuls the ratio would mean nothing.
        mfu = 100 * flops / self.peak_flops if self.peak_flops and not self.has_quantization else None
        loading = sum(self.data_loading_times)

        metrics = {
            "loss_metrics/global_avg_loss": global_avg_loss,
            "loss_metrics/global_max_loss": global_max_loss,
            "grad_norm": grad_norm,
            "throughput(tps)": tps,
            "tflops": flops / 1e12,
            "time_metrics/end_to_end(s)": step_seconds,
            "time_metrics/data_loading(s)": loading / max(len(self.data_loading_times), 1),
            "time_metrics/data_loading(%)": 100 * loading / seconds,
            "memory/max_active(GiB)": memory.max_active_gib,
            "memory/max_active(%)": memory.max_active_pct,
            "memory/max_reserved(GiB)": memory.max_reserved_gib,
            "memory/max_reserved(%)": memory.max_reserved_pct,
            "memory/num_alloc_retries": memory.num_alloc_retries,
            "memory/num_ooms": memory.num_ooms,
            **({"mfu(%)": mfu} if mfu is not None else {}),
            **(extra_metrics or {}),
        }
        self.logger.log(metrics, step)
        if self._reports:
            if self._jsonl is not None:
                self._jsonl.write(_record(step, metrics))
            self._console.show(
                StepReport(
                    step=step,
                    total_steps=self._total_steps,
                    loss=global_avg_loss,
                    grad_norm=grad_norm,
                    tokens_per_second=tps,
                    memory_gib=memory.max_reserved_gib,
                    memory_percent=memory.max_reserved_pct,
                    eta_seconds=(self._total_steps - step) * self._step_seconds,
                    mfu_percent=mfu,
                )
            )
        self.ntokens_since_last_log = 0
        self.data_loading_times.clear()
        self._last_step = step
        self.time_last_log = time.perf_counter()
        self.device_memory_monitor.reset_peak_stats()

    def log_validation(self, loss: float, step: int, extra_metrics: dict[str, Any] | None = None) -> None:
        """See MetricsProcessor.log_validation; ``loss`` in nats per token."""
        super().log_validation(loss, step, extra_metrics)
        if self._reports:
            if self._jsonl is not None:
                self._jsonl.write({"step": step, "time": time.time(), "validation_loss": loss})
            logger.info("validation after step %d: %.5f nats a token", step, loss)

    def close(self) -> None:
        self._console.close()
        if self._jsonl is not None:
            self._jsonl.close()
        super().close()


_NAMES = {
    "loss_metrics/global_avg_loss": "loss",
    "loss_metrics/global_max_loss": "max_loss",
    "throughput(tps)": "tokens_per_second",
    "n_tokens_seen": "tokens_seen",
    "time_metrics/end_to_end(s)": "step_seconds",
    "time_metrics/data_loading(s)": "data_seconds",
    "memory/max_reserved(GiB)": "memory_gib",
    "memory/max_active(GiB)": "memory_active_gib",
    "memory/num_alloc_retries": "allocation_retries",
    "memory/num_ooms": "out_of_memory",
    "mfu(%)": "mfu_percent",
}
_LEFT_OUT = {"time_metrics/data_loading(%)", "memory/max_active(%)", "memory/max_reserved(%)"}


def _record(step: int, metrics: dict[str, Any]) -> dict[str, Any]:
    """A line of metrics.jsonl: step, Unix time, and the metrics under names that need no quoting."""
    named = {_NAMES.get(name, name): value for name, value in metrics.items() if name not in _LEFT_OUT}
    return {"step": step, "time": time.time(), **named}


@contextlib.contextmanager
def without_assumed_peak() -> Iterator[None]:
    """Keep TorchTitan's lines about an assumed A100 peak out of the log while a trainer is built."""

    def keep(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(("Peak FLOPS used", "Peak flops undefined"))

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield
    finally:
        root.removeFilter(keep)
