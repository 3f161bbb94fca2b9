"""Config registries: plain functions that return a Trainer.Config (``--module titan_npu.recipes``)."""
