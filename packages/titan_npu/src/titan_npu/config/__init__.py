"""Hydra selects and merges, tyro types the values, dataclasses are rebuilt from the leaves up."""
