"""The words of the tables: an operator, its data types, and cases: inputs, attributes, and what NumPy says."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

TYPES = {
    "f4": np.dtype(np.float32), "f2": np.dtype(np.float16), "b2": np.dtype(ml_dtypes.bfloat16),
    "i4": np.dtype(np.int32), "i8": np.dtype(np.int64), "u1": np.dtype(np.uint8), "i1": np.dtype(np.int8),
    "b1": np.dtype(np.bool_),
}  # fmt: skip
FLOATS = "f4 f2 b2"
NUMBERS = "f4 f2 b2 i4 i8"
ANY = "f4 f2 b2 i4 i8 b1"


@dataclass(frozen=True)
class X:
    """An input of the graph; `type` None: the type under test. Domains: see `values`."""

    shape: tuple[int, ...]
    domain: str = "any"
    type: str | None = None


@dataclass(frozen=True)
class Case:
    """`inputs`: X, a list of X, None, or constants. `reference`: gets the X's values in order (floats as float64, lists as
    lists), returns one array or a list with None for outputs that are not compared."""

    inputs: Sequence[Any]
    reference: Callable[..., Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 0  # of a dynamic output

    def data(self, type: str) -> list[Any]:
        """Values of the X's in order."""
        seed = zlib.crc32(repr([i for i in self.inputs if not callable(i)]).encode())
        random = np.random.default_rng(seed)
        made: list[Any] = []
        for item in self.inputs:
            if isinstance(item, X):
                made.append(values(item, type, random))
            elif isinstance(item, list) and item and isinstance(item[0], X):
                made.append([values(each, type, random) for each in item])
        return made


@dataclass(frozen=True)
class Op:
    """A line of a table. `loose`: a factor on the tolerance, for long sums and approximations. `compiled`: only ge and
    afir, because the operator writes to an input or its aclnn function is not in the emulator."""

    type: str
    types: str
    cases: Sequence[Case]
    loose: float = 1.0
    compiled: bool = False


def values(x: X, type: str, random: np.random.Generator) -> Array:
    dtype = TYPES[x.type or type]
    made = np.asarray(_domain(x.domain, x.shape, dtype, random))
    return made.astype(dtype)


def _domain(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], random: np.random.Generator) -> Any:
    if dtype.kind == "b":
        return random.random(shape) > 0.5
    if name.startswith("below"):  # indices
        return random.integers(0, int(name[5:]), shape)
    if name == "distinct":  # no ties: sorting and the like have one answer
        return random.permutation(int(np.prod(shape))).reshape(shape) - int(np.prod(shape)) // 2
    if dtype.kind in "iu":
        low = {"positive": 1, "nonzero": 1, "large": 2, "bits": 0}.get(name, -9 if dtype.kind == "i" else 0)
        made = random.integers(low, 10, shape)
        return made * random.choice([-1, 1], shape) if name == "nonzero" and dtype.kind == "i" else made
    if name == "special":
        return np.resize([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan], shape)
    return {
        "any": lambda: random.standard_normal(shape) * 2,
        "small": lambda: random.standard_normal(shape) * 0.5,
        "positive": lambda: random.random(shape) * 3 + 0.1,
        "nonzero": lambda: (random.random(shape) * 3 + 0.2) * random.choice([-1, 1], shape),
        "unit": lambda: random.random(shape) * 1.8 - 0.9,
        "large": lambda: random.random(shape) * 4 + 1.1,
        "whole": lambda: random.integers(-9, 10, shape),
        "halves": lambda: random.integers(-9, 10, shape) + 0.25,
        "weights": lambda: random.random(shape),
    }[name]()


def exact(array: Any) -> Any:
    """As the references take it: float64, or whole numbers as they are."""
    if isinstance(array, list):
        return [exact(each) for each in array]
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


# What every family is tried on.

SHAPES = ((), (0,), (1,), (7,), (2, 3, 4), (1, 5, 1), (3, 0, 2), (2, 1, 3, 1, 2))
PAIRS = (
    ((), ()), ((3,), ()), ((), (2, 3)), ((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((0, 3), (1, 3)), ((1,), (1,)),
    ((4, 1), (1, 5)), ((2, 3), (2, 3)), ((5, 1, 2), (1, 1, 1)),
)  # fmt: skip
AXES = (((2, 3, 4), [1]), ((2, 3, 4), [-1]), ((2, 3, 4), [0, 2]), ((2, 3, 4), [-1, 0]), ((5,), [0]), ((1, 1), [1]),
        ((3, 1, 2), [-2]))  # fmt: skip
AXIS = tuple((shape, axes[0]) for shape, axes in AXES if len(axes) == 1)


def unary(
    type: str,
    reference: Callable[..., Any],
    types: str = FLOATS,
    domain: str = "any",
    loose: float = 1.0,
    **attributes: Any,
) -> Op:
    return Op(type, types, [Case([X(shape, domain)], reference, attributes) for shape in SHAPES], loose)


def binary(
    type: str,
    reference: Callable[..., Any],
    types: str = NUMBERS,
    domains: tuple[str, str] = ("any", "any"),
    loose: float = 1.0,
    **attributes: Any,
) -> Op:
    return Op(
        type,
        types,
        [Case([X(a, domains[0]), X(b, domains[1])], reference, attributes) for a, b in PAIRS],
        loose,
    )


def same_shape(
    type: str, reference: Callable[..., Any], types: str = FLOATS, count: int = 2, loose: float = 1.0,
    domain: str = "any", **attributes: Any,
) -> Op:  # fmt: skip
    """Operands of one shape: gradients."""
    return Op(
        type, types, [Case([X(shape, domain)] * count, reference, attributes) for shape in SHAPES], loose
    )
