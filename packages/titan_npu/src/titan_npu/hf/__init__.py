"""Checkpoints to and from Hugging Face safetensors (``titan-npu export`` and ``titan-npu import``)."""
