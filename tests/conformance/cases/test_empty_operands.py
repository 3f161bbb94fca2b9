"""Operands without elements: the result is the input, a copy of it, or what the definition says; never
memory nobody wrote.

Case scatter-with-an-empty-index, and its kind: in place, out of place and with out=.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map

X = torch.arange(12.0).reshape(3, 4)
NONE = torch.empty(0, dtype=torch.int64)
NO_ROWS, NO_COLUMNS = NONE.reshape(0, 4), NONE.reshape(3, 0)

#: With an index without elements each of these gives back what it was given: method, its arguments.
KEEPING: dict[str, tuple[Any, ...]] = {
    "scatter": (0, NO_ROWS, torch.empty(0, 4)),
    "scatter ": (1, NO_COLUMNS, torch.empty(3, 0)),
    "scatter  ": (0, NO_ROWS, 2.5),
    "scatter_add": (0, NO_ROWS, torch.empty(0, 4)),
    "scatter_reduce": (0, NO_ROWS, torch.empty(0, 4), "amax"),
    "index_add": (0, NONE, torch.empty(0, 4)),
    "index_add ": (1, NONE, torch.empty(3, 0)),
    "index_copy": (0, NONE, torch.empty(0, 4)),
    "index_fill": (0, NONE, 2.5),
    "index_put": ((NONE,), torch.empty(0, 4)),
    "index_put ": ((NONE, NONE), torch.tensor(2.5)),
    "index_put  ": ((NONE,), torch.empty(0, 4), True),
    "masked_fill": (torch.zeros(3, 4, dtype=torch.bool), 2.5),
    "masked_scatter": (torch.zeros(3, 4, dtype=torch.bool), torch.empty(0)),
    "put": (NONE, torch.empty(0)),
}


def _dirty(device: torch.device) -> None:
    """Leaves blocks of the allocator full of another number, so that memory nobody wrote shows."""
    for _ in range(8):
        torch.full((3, 4), -99.0, device=device)


def _to(tree: Any, device: torch.device) -> Any:
    return tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, tree)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("name", KEEPING)
def test_an_empty_index_changes_nothing(npu: torch.device, name: str, dtype: torch.dtype) -> None:
    def cast(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            return x.to(dtype)
        return 2 if isinstance(x, float) and dtype == torch.int64 else x

    arguments = _to(tree_map(cast, KEEPING[name]), npu)
    x = X.to(dtype).to(npu)
    _dirty(npu)
    result = getattr(x, name.strip())(*arguments)
    assert torch.equal(result.cpu(), X.to(dtype))
    assert result.data_ptr() != x.data_ptr(), "a copy, not the input itself"
    result.add_(1)
    assert torch.equal(x.cpu(), X.to(dtype))
    assert torch.equal(getattr(x, f"{name.strip()}_")(*arguments).cpu(), X.to(dtype))


@pytest.mark.parametrize("name", ["scatter", "scatter_add", "index_add", "index_copy"])
def test_an_empty_index_with_out(npu: torch.device, name: str) -> None:
    out = torch.full((3, 4), -99.0, device=npu)
    getattr(torch, name)(X.to(npu), *_to(KEEPING[name], npu), out=out)
    assert torch.equal(out.cpu(), X)


#: What gives a tensor without elements: function of x and an empty index, the shape it gives.
EMPTY: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "gather": (lambda x, i: torch.gather(x, 0, i.reshape(0, 4)), (0, 4)),
    "index_select": (lambda x, i: torch.index_select(x, 1, i), (3, 0)),
    "index": (lambda x, i: x[i], (0, 4)),
    "take": (torch.take, (0,)),
    "embedding": (lambda x, i: torch.nn.functional.embedding(i, x), (0, 4)),
    "masked_select": (lambda x, i: x[x < -1], (0,)),
    "nonzero": (lambda x, i: (x < -1).nonzero(), (0, 2)),
    "add": (lambda x, i: x[:0] + 1, (0, 4)),
    "exp": (lambda x, i: x[:, :0].exp(), (3, 0)),
    "cat": (lambda x, i: torch.cat((x[:0], x[:0])), (0, 4)),
    "mm of no rows": (lambda x, i: x[:0] @ x.T, (0, 3)),
    "sort": (lambda x, i: x[:0].sort(0).values, (0, 4)),
    "cumsum": (lambda x, i: x[:0].cumsum(0), (0, 4)),
    "softmax": (lambda x, i: x[:0].softmax(1), (0, 4)),
    "unique": (lambda x, i: i.unique(), (0,)),
    "amax of no rows": (lambda x, i: x[:0].amax(1), (0,)),
    "topk": (lambda x, i: x[:0].topk(2).values, (0, 2)),
    "copy": (lambda x, i: x[:0].clone(), (0, 4)),
    "layer_norm": (lambda x, i: torch.nn.functional.layer_norm(x[:0], [4]), (0, 4)),
    "conv2d of no images": (
        lambda x, i: torch.conv2d(x.reshape(1, 1, 3, 4)[:0], x.reshape(1, 1, 3, 4)),
        (0, 1, 1, 1),
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_results_without_elements(npu: torch.device, name: str) -> None:
    function, shape = EMPTY[name]
    assert function(X.to(npu), NONE.to(npu)).cpu().shape == shape


#: Reductions over no elements have values of their own.
NEUTRAL: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "sum": (lambda x: x.sum(0), 0.0),
    "prod": (lambda x: x.prod(0), 1.0),
    "mean": (lambda x: x.mean(0), float("nan")),
    "all": (lambda x: x.all(0).float(), 1.0),
    "any": (lambda x: x.any(0).float(), 0.0),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=0), 0.0),
    "logsumexp": (lambda x: x.logsumexp(0), float("-inf")),
    "var": (lambda x: x.var(0), float("nan")),
    "matrix product over no elements": (lambda x: (x.T @ x)[0], 0.0),
    "batched product over no elements": (lambda x: torch.bmm(x.T[None], x[None])[0, 0], 0.0),
    "addmm over no elements": (
        lambda x: torch.addmm(torch.full((4, 4), 2.0, device=x.device), x.T, x)[0],
        2.0,
    ),
    "linear without features": (lambda x: torch.nn.functional.linear(x.T, x.T, x.sum(0) + 3)[0], 3.0),
}


@pytest.mark.parametrize("name", NEUTRAL)
def test_reductions_over_no_elements(npu: torch.device, name: str) -> None:
    function, value = NEUTRAL[name]
    _dirty(npu)
    np.testing.assert_array_equal(function(torch.empty(0, 4, device=npu)).cpu(), np.full(4, value))


@pytest.mark.parametrize("name", ["max", "min", "amax", "argmax"])
def test_the_largest_of_nothing_is_an_error(name: str) -> None:
    # in a process of its own: an error that an operator meets on the device stays with the device
    program = f"import torch; print(torch.{name}(torch.empty(0, 4, device='npu:0'), 0))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "tensor" not in ended.stdout  # torch_npu's own log line may be there
    assert "Error" in ended.stderr


@pytest.mark.parametrize("name", ["zero_", "relu_", "exp_"])
def test_in_place_on_nothing(npu: torch.device, name: str) -> None:
    assert getattr(torch.empty(0, 4, device=npu), name)().shape == (0, 4)


def test_gradients_of_an_empty_index(npu: torch.device) -> None:
    x = X.to(npu).requires_grad_()
    (x[NONE.to(npu)].sum() + 2 * x.sum()).backward()
    assert torch.equal(x.grad.cpu(), torch.full((3, 4), 2.0))
