"""Between TorchTitan's config dataclasses and plain trees (dict, list, scalars) that hydra can merge.

``to_tree`` shows what can be set; ``rebuild`` takes a changed tree and makes new dataclasses from the leaves
up with ``dataclasses.replace``, so that every ``__post_init__`` check runs (assigning attributes would skip
them). The type of a changed value is tyro's business, as on TorchTitan's own command line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import io
import types
import typing
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Annotated, Any, Union

import tyro
from torchtitan.config.manager import ConfigManager

from titan_npu.errors import ConfigError, nearest

SCALARS = (str, int, float, bool, type(None))


class _Opaque:
    """Marks values that cannot be written down (callables, model specs): they stay as the recipe has them."""


OPAQUE = _Opaque()


def to_tree(value: Any) -> Any:
    """The settable part of a config as dicts, lists and scalars; OPAQUE for what cannot be written down."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        tree = {}
        hints = field_types(type(value))
        for field in dataclasses.fields(value):
            if field.name.startswith("_") or not field.init or _suppressed(hints[field.name]):
                continue
            branch = to_tree(getattr(value, field.name))
            if branch is not OPAQUE:
                tree[field.name] = branch
        return tree
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, (list, tuple)):
        branches = [to_tree(item) for item in value]
        return OPAQUE if any(branch is OPAQUE for branch in branches) else branches
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: branch for key, item in value.items() if (branch := to_tree(item)) is not OPAQUE}
    return OPAQUE


def leaf_paths(tree: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key of ``tree``, branches included (list items by their index)."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, branch in items:
        path = f"{prefix}.{key}" if prefix else str(key)
        yield path
        if isinstance(branch, (dict, list)):
            yield from leaf_paths(branch, path)


def rebuild(value: Any, tree: Any, path: str = "") -> Any:
    """A new ``value`` with the settings of ``tree``.

    Raises ConfigError with the dotted path for an unknown key, a value of the wrong type, or a check that
    fails.
    """
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path or 'the configuration'} is a group of settings and cannot be set to {tree!r}."
        )
    hints = field_types(type(value))
    known = to_tree(value)
    for key in tree:
        if key not in known:
            raise ConfigError(f"Unknown key {_join(path, key)}.{nearest(key, known)}")
    changes = {}
    for key, branch in tree.items():
        changes[key] = _changed(getattr(value, key), branch, hints[key], _join(path, key))
    try:
        return dataclasses.replace(value, **changes)
    except (ValueError, AssertionError, TypeError, NotImplementedError) as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from error


def _changed(old: Any, branch: Any, hint: Any, path: str) -> Any:
    if dataclasses.is_dataclass(old) and isinstance(branch, dict):
        return rebuild(old, branch, path)
    choices = union_choices(hint)
    if choices and not isinstance(branch, dict):
        name = "none" if branch is None else str(branch)
        if name not in choices:
            raise ConfigError(
                f"{path} is one of {', '.join(choices)}, not {branch!r}.{nearest(name, choices)}"
            )
        chosen = choices[name]
        if old is None and chosen is None:
            return None
        return None if chosen is None else old if type(old) is chosen else chosen()
    if choices and isinstance(branch, dict):  # old is None: the group was switched off by the recipe
        raise ConfigError(f"{path} is switched off; select it first with {path}={next(iter(choices))}.")
    if to_tree(old) == branch and type(to_tree(old)) is type(branch):
        return old
    if isinstance(old, (list, tuple)) and old and all(dataclasses.is_dataclass(item) for item in old):
        if not isinstance(branch, list) or len(branch) != len(old):
            raise ConfigError(f"{path} has {len(old)} entries; set one by its index, as in {path}.0.")
        return [
            rebuild(item, part, f"{path}.{index}")
            for index, (item, part) in enumerate(zip(old, branch, strict=True))
        ]
    if isinstance(old, dict):
        return _changed_dict(old, branch, path)
    return typed(branch, hint, path)


def _changed_dict(old: dict[str, Any], branch: Any, path: str) -> dict[str, Any]:
    """Free-form keyword arguments (dict[str, Any]): a value keeps the type of the one that it replaces."""
    if not isinstance(branch, dict):
        raise ConfigError(f"{path} is a mapping, not {branch!r}.")
    new = dict(old)
    for key, value in branch.items():
        before = to_tree(old[key]) if key in old else value
        if before == value:
            continue
        place = _join(path, key)
        if isinstance(old.get(key), (tuple, list)):
            if not isinstance(value, list) or len(value) != len(old[key]):
                raise ConfigError(
                    f"{place} has {len(old[key])} values, as in {list(old[key])}; got {value!r}."
                )
            new[key] = type(old[key])(type(was)(now) for was, now in zip(old[key], value, strict=True))
        elif key in old and old[key] is not None:
            new[key] = typed(value, type(old[key]), place)
        else:
            new[key] = value
    return new


def typed(value: Any, hint: Any, path: str) -> Any:
    """``value`` (from hydra) as the type ``hint``, by tyro's rules. Raises ConfigError with the path and the
    value."""
    inner = _list_item(hint)
    if isinstance(value, list) and any(isinstance(item, list) for item in value) and inner is not None:
        return [typed(item, inner, f"{path}.{index}") for index, item in enumerate(value)]
    leaf = make_dataclass("Leaf", [("value", hint)])
    try:
        # tyro prints what it found wrong in its own words (flags that the user did not type): ours are below.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            parsed = tyro.cli(
                leaf,
                args=["--value", *_tokens(value, hint)],
                registry=_registry(),
                config=(tyro.conf.FlagConversionOff,),
                add_help=False,
            )
    except SystemExit:
        raise ConfigError(f"{path} takes {describe(hint)}, not {value!r}.") from None
    except (ValueError, TypeError, tyro.constructors.UnsupportedTypeAnnotationError) as error:
        raise ConfigError(f"{path} takes {describe(hint)}, not {value!r} ({error}).") from error
    return parsed.value


@functools.cache
def _registry() -> tyro.constructors.ConstructorRegistry:
    """TorchTitan's own tyro rules (comma-separated lists, override imports)."""
    registry = tyro.constructors.ConstructorRegistry()
    ConfigManager.register_tyro_rules(registry)
    return registry


def _list_item(hint: Any) -> Any:
    """X of ``list[X]`` or ``list[X] | None``; None for any other type."""
    for part in (_strip(hint), *typing.get_args(_strip(hint))):
        if typing.get_origin(part) is list:
            return typing.get_args(part)[0]
    return None


def _tokens(value: Any, hint: Any) -> list[str]:
    """The words that a shell would hand to tyro for ``value``."""
    if isinstance(value, list):
        words = [word for item in value for word in _tokens(item, Any)]
        return [",".join(words)] if _strip(hint) == list[str] else words
    if isinstance(value, dict):
        return [word for key, item in value.items() for word in (str(key), *_tokens(item, Any))]
    return [str(value)]


def field_types(config_class: type) -> dict[str, Any]:
    """The resolved annotations of a dataclass, Annotated kept (tyro's marks live there)."""
    return typing.get_type_hints(config_class, include_extras=True)


def union_choices(hint: Any) -> dict[str, type | None]:
    """For a union of config classes with tyro subcommand names: name -> class, None for "none"; else {}."""
    choices: dict[str, type | None] = {}
    if typing.get_origin(_strip(hint)) not in (Union, types.UnionType):
        return {}
    for member in typing.get_args(_strip(hint)):
        if typing.get_origin(member) is not Annotated:
            return {}
        kind, *marks = typing.get_args(member)
        for mark in marks:
            name = getattr(mark, "name", None)
            if name:
                choices[name] = None if kind is type(None) else kind
    return choices


def describe(hint: Any) -> str:
    """A type as a reader of an error message wants it."""
    plain = _strip(hint)
    if plain is type(None):
        return "null"
    if typing.get_origin(plain) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(plain)))
    if typing.get_origin(plain) in (Union, types.UnionType):
        return " or ".join(describe(part) for part in typing.get_args(plain))
    return str(plain) if typing.get_args(plain) else getattr(plain, "__name__", str(plain))


def _strip(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _suppressed(hint: Any) -> bool:
    return typing.get_origin(hint) is Annotated and tyro.conf.Suppress in typing.get_args(hint)[1:]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
