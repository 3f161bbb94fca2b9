"""From an exception deep in torch or TorchTitan to one sentence that the user can act on."""

from __future__ import annotations

import torch
from torchtitan.trainer import Trainer

from titan_npu.errors import ConfigError, DeviceMemoryError, TitanNpuError

MIB, GIB = 1 << 20, 1 << 30


def explain(error: Exception, config: Trainer.Config) -> TitanNpuError | None:
    """The TitanNpuError that ``error`` amounts to; None when it is nothing known (a bug: show its
    traceback)."""
    if isinstance(error, TitanNpuError):
        return error
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in text.lower():
        return DeviceMemoryError(_out_of_memory(text, config))
    if "Loss is not finite" in text:
        return TitanNpuError(f"{text} Lower the learning rate, or look at the data of that step.")
    if isinstance(error, (ValueError, AssertionError, NotImplementedError)) and _raised_by_a_check(error):
        return ConfigError(text.strip().splitlines()[0] if text.strip() else type(error).__name__)
    return None


def _out_of_memory(text: str, config: Trainer.Config) -> str:
    training = config.training
    device = ""
    try:
        free, total = torch.npu.mem_get_info()
        device = f"the device has {_size(total)}, {_size(free)} of it free"
    except Exception:  # a device that ran out of memory may not answer any more
        device = "the device is full"
    parameters = _parameters(config)
    model = ""
    if parameters:
        size = torch.finfo(torch.float32 if training.dtype == "float32" else torch.bfloat16).bits // 8
        model = (
            f": the model's {parameters / 1e6:,.1f} M parameters take {_size(4 * parameters * size)} with "
            f"gradients and AdamW states in {training.dtype}, and activations come on top"
        )
    return (
        f"Out of device memory{model}; {device}. Lower training.local_batch_size "
        f"({training.local_batch_size}) or training.seq_len ({training.seq_len}), set "
        "activation_checkpoint=full, take a smaller model, or give the device more "
        "(NPU_EMULATOR_HBM_GB on the emulator)."
    )


def _size(count: float) -> str:
    """Bytes for people."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / MIB:,.0f} MiB"


def _parameters(config: Trainer.Config) -> int:
    if config.model_spec is None:
        return 0
    try:
        with torch.device("meta"):
            model = config.model_spec.model.build()
    except Exception:  # the figure is a service; the sentence stands without it
        return 0
    return sum(parameter.numel() for parameter in model.parameters())


def _raised_by_a_check(error: Exception) -> bool:
    """Whether ``error`` comes from a check of the configuration in TorchTitan, not from a kernel or a bug."""
    trace = error.__traceback__
    module = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        trace = trace.tb_next
    checks = (
        "torchtitan.trainer",
        "torchtitan.distributed.parallel_dims",
        "torchtitan.models",
        "torchtitan.config",
    )
    return module.startswith(checks)
