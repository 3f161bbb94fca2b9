"""Operators whose results are not a function of their inputs: random numbers and uninitialised memory.

They are counted apart and never as passed. A random one is checked for structure, shape, dtype and range
against many draws of the CPU's; one that returns uninitialised memory for structure, shape and dtype only.
The generator's own quality and reproducibility are tested in tests/unit/kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves

from .compare import Difference, Tolerance, differences
from .layouts import map_tensors

# fmt: off
#: Operators (or some of their samples) that draw random numbers; the samples that draw none are compared by
#: value.
RANDOM = frozenset(
    [
        "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like",
        "randint", "randint_like", "randn", "randn_like", "uniform", "pca_lowrank", "svd_lowrank",
        "nn.functional.alpha_dropout", "nn.functional.dropout",
        "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
        "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
        "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
        "nn.functional.scaled_dot_product_attention",
    ]
)

#: Operators that return memory nobody wrote, wholly or beyond what the input had.
UNINITIALISED = frozenset(
    [
        "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
        "resize_", "resize_as_",
    ]
)

_DRAWS = 24
# fmt: on


@contextmanager
def other_seed(offset: int) -> Iterator[None]:
    """Random numbers from another seed, also in operators that op_db wraps so that they seed the generator
    themselves.
    """
    seed_with = torch.manual_seed
    with mock.patch.object(torch, "manual_seed", lambda seed: seed_with(seed + offset)):
        torch.manual_seed(0)
        yield


def is_random(run: Callable[[], Any], first: Any) -> bool:
    """True if drawing again, from other seeds, gives the CPU another result."""
    for seed in range(1, _DRAWS):
        with other_seed(seed):
            again = run()
        if differences(first, again, Tolerance()):
            return True
    return False


def check_draw(run_on_cpu: Callable[[], Any], actual: Any) -> list[Difference]:
    """Structure, shape and dtype of `actual`, and whether each element lies where the CPU's draws of it lie
    (three spans to each side).
    """
    draws = []
    for seed in range(_DRAWS):
        with other_seed(seed):
            draws.append([leaf for leaf in tree_leaves(run_on_cpu()) if isinstance(leaf, torch.Tensor)])
    found = check_form(run_on_cpu(), actual)
    if found:
        return found
    for index, leaf in enumerate(leaf for leaf in tree_leaves(actual) if isinstance(leaf, torch.Tensor)):
        if leaf.is_complex() or leaf.numel() == 0:
            continue
        seen = torch.stack([draw[index].detach().to(torch.float64) for draw in draws])
        low, high = seen.amin(), seen.amax()
        span, value = high - low, leaf.detach().cpu().to(torch.float64)
        outside = (value < low - 3 * span) | (value > high + 3 * span)
        if bool(outside.any() or (value.isnan() & ~seen.isnan().any(0)).any()):
            found.append(
                Difference("value", f"part {index}: a draw outside of what the CPU draws ({low} to {high})")
            )
    return found


def check_form(expected: Any, actual: Any) -> list[Difference]:
    """Structure, shapes and dtypes only."""
    blank_expected, blank_actual = (
        map_tensors(lambda t: torch.zeros(t.shape, dtype=t.dtype), x) for x in (expected, actual)
    )
    return differences(blank_expected, blank_actual, Tolerance())
