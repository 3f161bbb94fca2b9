"""Checkpoints by TorchTitan's DCP manager, with the random number generators and damage told in one
sentence."""

from titan_npu.checkpoint.manager import NpuCheckpointManager

__all__ = ["NpuCheckpointManager"]
