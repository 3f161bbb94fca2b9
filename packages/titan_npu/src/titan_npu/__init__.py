"""TorchTitan on Ascend NPUs. Importing this package has no effect beyond defining names."""

__version__ = "0.1.0"
