"""``recipe=llama3_debug training.steps=30`` -> a Trainer.Config and a launcher.

Hydra parses the words, picks the config groups (conf/) and merges; TorchTitan's own field names are the keys.
A recipe is a plain function that returns a Trainer.Config: its settable part enters hydra as the node of the
group ``recipe``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torchtitan.trainer import Trainer

from titan_npu.config.tree import leaf_paths, rebuild, to_tree
from titan_npu.data.prepare import default_folder
from titan_npu.errors import ConfigError, nearest
from titan_npu.launch.config import Launcher
from titan_npu.recipes import config_registry

DEFAULT_RECIPE = "llama3_debug"

Recipe = Callable[[], Trainer.Config]


@dataclass(slots=True)
class Job:
    """A composed run: what ``--cfg job`` prints and what is built."""

    recipe: str
    trainer: Trainer.Config
    launcher: Launcher = field(default_factory=Launcher)
    tree: DictConfig = field(default_factory=DictConfig)

    def to_yaml(self) -> str:
        return str(OmegaConf.to_yaml(self.tree, resolve=True))


def recipe_names() -> list[str]:
    return sorted(config_registry.__all__)


def load_recipe(name: str) -> Recipe:
    """The config function of a recipe: one of ours, or ``package.module.function`` of anybody's registry."""
    if name in config_registry.__all__:
        registered: Recipe = getattr(config_registry, name)
        return registered
    module_name, _, function_name = name.rpartition(".")
    if not module_name:
        raise ConfigError(
            f"There is no recipe {name!r}; known: {', '.join(recipe_names())} "
            f"(or package.module.function of a config registry).{nearest(name, recipe_names())}"
        )
    try:
        function: Recipe = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"Recipe {name!r} cannot be imported: {error}.") from error
    return function


def compose_job(words: Sequence[str]) -> Job:
    """Compose a run from command-line words such as ``recipe=llama3_debug training.steps=30``.

    Raises ConfigError for a word that cannot be parsed, an unknown recipe, group choice or key, and a wrong
    value.
    """
    overrides = _parse(words)
    recipe = next((str(o.value()) for o in reversed(overrides) if o.key_or_group == "recipe"), DEFAULT_RECIPE)
    try:
        config = load_recipe(recipe)()
    except TypeError as error:
        raise ConfigError(f"Recipe {recipe!r} is no function without arguments: {error}.") from error
    if not isinstance(config, Trainer.Config):
        raise ConfigError(
            f"Recipe {recipe!r} returns {type(config).__qualname__}, not a torchtitan Trainer.Config."
        )
    node = {**to_tree(config), "launcher": to_tree(Launcher())}
    groups = _groups()
    _check_keys(overrides, node, groups)

    node_name = recipe.replace(".", "_")
    ConfigStore.instance().store(
        group="recipe", name=node_name, package="_global_", node=OmegaConf.create(node)
    )
    hydra_words = [f"recipe={node_name}"] + [o.input_line for o in overrides if o.key_or_group != "recipe"]
    GlobalHydra.instance().clear()
    OmegaConf.register_new_resolver("prepared", lambda name: str(default_folder() / name), replace=True)
    OmegaConf.register_new_resolver("npus", lambda: torch.npu.device_count(), replace=True)
    try:
        with initialize_config_module("titan_npu.conf", version_base="1.3"):
            tree = compose("config", overrides=hydra_words)
        container = OmegaConf.to_container(tree, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(_first_line(error) + _where(error)) from error
    except HydraException as error:
        raise ConfigError(_first_line(error)) from error
    assert isinstance(container, dict)
    launcher = container.pop("launcher")
    return Job(
        recipe=recipe,
        trainer=rebuild(config, container),
        launcher=rebuild(Launcher(), launcher, "launcher"),
        tree=tree,
    )


def _parse(words: Sequence[str]) -> list[Override]:
    parser = OverridesParser.create()
    parsed = []
    for word in words:
        try:
            override = parser.parse_override(word)
        except HydraException as error:
            raise ConfigError(f"{word!r} is not of the form key=value: {_first_line(error)}") from error
        if override.is_delete() or override.is_sweep_override():
            raise ConfigError(
                f"{word!r}: only key=value (and +key=value inside free-form mappings) is supported."
            )
        parsed.append(override)
    return parsed


def _groups() -> dict[str, list[str]]:
    """Config groups other than ``recipe`` and their choices, read from the package's conf folder."""
    GlobalHydra.instance().clear()
    with initialize_config_module("titan_npu.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        return {
            group: loader.get_group_options(group)
            for group in loader.get_group_options("", results_filter=None)
            if group not in ("config", "recipe", "hydra", "_dummy_empty_config_")
            and loader.get_group_options(group)
        }


def _check_keys(overrides: Sequence[Override], node: dict[str, Any], groups: dict[str, list[str]]) -> None:
    keys = list(leaf_paths(node))
    for override in overrides:
        key = override.key_or_group
        if key == "recipe" or override.is_add():  # an added key is checked against the dataclass later
            continue
        if key in groups:
            choice = override.value()
            if choice is not None and choice not in groups[key]:
                raise ConfigError(
                    f"{key}={choice}: there is no such choice; known: {', '.join(groups[key])}."
                    f"{nearest(str(choice), groups[key])}"
                )
        elif key not in keys and not _inside_switched(key, overrides):
            raise ConfigError(f"Unknown key {key}.{nearest(key, [*keys, *groups, 'recipe'])}")


def _inside_switched(key: str, overrides: Sequence[Override]) -> bool:
    """Whether ``key`` lies in a group of settings that another word of the same command replaces by name."""
    return any(key.startswith(o.key_or_group + ".") and isinstance(o.value(), str) for o in overrides)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _where(error: OmegaConfBaseException) -> str:
    key = getattr(error, "full_key", None)
    return f" (key {key})" if key and key not in _first_line(error) else ""
