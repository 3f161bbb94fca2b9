"""The layouts, and what every run of them has in common."""

from __future__ import annotations

from dataclasses import dataclass

ROWS = 8
"""Rows of the global batch: a layout divides them among its data-parallel ranks."""

COMMON = (
    "vocab_multiple=64",
    "training.seq_len=128",
    f"training.global_batch_size={ROWS}",
    "training.steps=10",
    "training.mixed_precision_param=float32",
    "validator.enable=true",
    "validator.freq=5",
    "metrics.enable_tensorboard=false",
)

DEGREES = {
    "hsdp": "data_parallel_replicate_degree",
    "fsdp": "data_parallel_shard_degree",
    "cp": "context_parallel_degree",
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "ep": "expert_parallel_degree",
}


@dataclass(frozen=True)
class Layout:
    """A recipe on some ranks. ``degrees`` are TorchTitan's, by the short names of DEGREES."""

    name: str
    degrees: dict[str, int]
    words: tuple[str, ...] = ()
    recipe: str = "llama3_debug"
    accumulation: int = 1
    in_ci: bool = False

    @property
    def ranks(self) -> int:
        """Experts spread over ranks that the other degrees count."""
        ranks = 1
        for name, degree in self.degrees.items():
            ranks *= degree if name != "ep" else 1
        return ranks

    @property
    def command(self) -> list[str]:
        """The words after ``titan-npu train``."""
        data = self.degrees.get("hsdp", 1) * self.degrees.get("fsdp", 1)
        return [
            f"recipe={self.recipe}",
            *COMMON,
            f"training.local_batch_size={ROWS // data // self.accumulation}",
            *(f"parallelism.{DEGREES[name]}={degree}" for name, degree in self.degrees.items()),
            f"validator.steps={2 * self.accumulation}",  # the same rows
            *self.words,
        ]


MOE = "deepseek_v3_debug"
FULL = "parallelism.spmd_backend=full_dtensor"
ULYSSES = "context_parallel=ulysses"
SCHEDULE = "parallelism.pipeline_parallel_schedule="
AC = "activation_checkpoint="

LAYOUTS = (
    Layout("fsdp2", {"fsdp": 2}),
    Layout("fsdp2 full_dtensor", {"fsdp": 2}, (FULL,)),
    Layout("ddp2", {"hsdp": 2, "fsdp": 1}),
    Layout("hsdp 2x2", {"hsdp": 2, "fsdp": 2}),
    Layout("hsdp 2x2 full_dtensor", {"hsdp": 2, "fsdp": 2}, (FULL,)),
    Layout("tp2", {"tp": 2}),
    Layout("tp2 full_dtensor", {"tp": 2}, (FULL,)),
    Layout("tp2 without sequence parallel", {"tp": 2}, ("parallelism.enable_sequence_parallel=false",)),
    Layout("tp4", {"tp": 4}),
    Layout("pp2 1F1B", {"pp": 2}, (SCHEDULE + "1F1B",)),
    Layout("pp2 Interleaved1F1B", {"pp": 2}, (SCHEDULE + "Interleaved1F1B",)),
    Layout("pp2 InterleavedZeroBubble", {"pp": 2}, (SCHEDULE + "InterleavedZeroBubble",)),
    Layout("pp2 ZBVZeroBubble", {"pp": 2}, (SCHEDULE + "ZBVZeroBubble",)),
    Layout("pp2 full_dtensor", {"pp": 2}, (FULL,)),
    Layout("cp2", {"cp": 2}),
    Layout("cp2 full_dtensor", {"cp": 2}, (FULL,)),
    Layout("cp2 without load balancing", {"cp": 2}, ("parallelism.context_parallel_load_balancer=null",)),
    Layout("cp4", {"cp": 4}),
    Layout("ulysses2", {"cp": 2}, (ULYSSES,)),
    Layout("ulysses2 full_dtensor", {"cp": 2}, (ULYSSES, FULL)),
    Layout("fsdp2 x tp2", {"fsdp": 2, "tp": 2}),
    Layout("fsdp2 x tp2 full_dtensor", {"fsdp": 2, "tp": 2}, (FULL,), in_ci=True),
    Layout("fsdp2 x cp2", {"fsdp": 2, "cp": 2}),
    Layout("cp2 x tp2", {"cp": 2, "tp": 2}, in_ci=True),
    Layout("cp2 x tp2 full_dtensor", {"cp": 2, "tp": 2}, (FULL,)),
    Layout("ulysses2 x tp2", {"cp": 2, "tp": 2}, (ULYSSES,), in_ci=True),
    Layout("pp2 x fsdp2", {"pp": 2, "fsdp": 2}),
    Layout("pp2 x tp2", {"pp": 2, "tp": 2}),
    Layout("pp2 x cp2", {"pp": 2, "cp": 2}, in_ci=True),
    Layout("fsdp2 x tp2 x pp2", {"fsdp": 2, "tp": 2, "pp": 2}),
    Layout("fsdp2 x cp2 x tp2", {"fsdp": 2, "cp": 2, "tp": 2}),
    Layout("fsdp2 x ulysses2 x tp2", {"fsdp": 2, "cp": 2, "tp": 2}, (ULYSSES,)),
    Layout("hsdp 2x2 x tp2", {"hsdp": 2, "fsdp": 2, "tp": 2}),
    Layout("fsdp2, full checkpointing", {"fsdp": 2}, (AC + "full",)),
    Layout("fsdp2 x tp2, selective checkpointing", {"fsdp": 2, "tp": 2}, (AC + "selective",)),
    Layout("cp2, selective checkpointing", {"cp": 2}, (AC + "selective",)),
    Layout("fsdp2, gradients of 2 batches", {"fsdp": 2}, accumulation=2),
    Layout("fsdp2 full_dtensor, gradients of 2 batches", {"fsdp": 2}, (FULL,), accumulation=2),
    Layout("moe fsdp2", {"fsdp": 2}, recipe=MOE),
    Layout("moe tp2", {"tp": 2}, recipe=MOE),
    Layout("moe cp2", {"cp": 2}, recipe=MOE),
    Layout("moe ulysses2", {"cp": 2}, (ULYSSES,), recipe=MOE),
    Layout("moe ep2", {"fsdp": 2, "ep": 2}, recipe=MOE),
    Layout("moe ep2 full_dtensor", {"fsdp": 2, "ep": 2}, (FULL,), recipe=MOE),
    Layout("moe ep2 x tp2", {"fsdp": 2, "tp": 2, "ep": 2}, recipe=MOE, in_ci=True),
    Layout("moe ep2 over tp2", {"tp": 2, "ep": 2}, recipe=MOE),
    Layout("moe ep2 x cp2", {"fsdp": 2, "cp": 2, "ep": 2}, recipe=MOE),
    Layout("moe ep2 x pp2", {"fsdp": 2, "pp": 2, "ep": 2}, recipe=MOE),
    Layout("moe ep4 x fsdp2", {"fsdp": 8, "ep": 4}, recipe=MOE),
    Layout("moe ep4 x fsdp2, selective checkpointing", {"fsdp": 8, "ep": 4}, (AC + "selective",), recipe=MOE),
)
