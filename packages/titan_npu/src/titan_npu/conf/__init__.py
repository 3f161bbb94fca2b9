"""Hydra's config groups (YAML files beside this one)."""
