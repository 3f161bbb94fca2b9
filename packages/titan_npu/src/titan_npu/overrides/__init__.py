"""Fused NPU modules as TorchTitan ``@override`` factories, activated by name in ``override.imports``."""
