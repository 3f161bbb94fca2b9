"""Every operand transposed, expanded, strided and offset into its storage, the written one too.

Case scatter-from-a-transposed-source, and its kind. The result has to be what CPU torch gives for
contiguous copies; memory around a written operand has to stay what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .operations import INPLACE, OUT, PLAIN
from .views import READ, WRITTEN, View, view

Operation = Callable[..., Any]


def _check(actual: Any, expected: Any, label: str) -> None:
    if isinstance(expected, torch.Tensor):
        actual, expected = (actual,), (expected,)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-5, atol=1e-5, msg=lambda m: f"{label}: {m}")


def _plain(views: list[Any]) -> list[Any]:
    return [
        v.tensor.clone(memory_format=torch.contiguous_format) if isinstance(v, View) else v for v in views
    ]


def _moved(views: list[Any], device: torch.device) -> list[Any]:
    return [v.to(device).tensor if isinstance(v, View) else v for v in views]


def _laid_out(operands: list[Any], chosen: set[int], layout: str) -> list[Any]:
    def laid_out(number: int, operand: Any) -> Any:
        if not isinstance(operand, torch.Tensor):
            return operand
        # a row of equal indices would make it a matter of luck which value is written last
        duplicates = layout == "expanded" and operand.ndim == 1 and not operand.is_floating_point()
        return view(operand, layout if number in chosen and not duplicates else "contiguous")

    return [laid_out(number, operand) for number, operand in enumerate(operands)]


def _choices(operands: list[Any]) -> list[set[int]]:
    """Each tensor operand alone, then all of them."""
    tensors = [i for i, x in enumerate(operands) if isinstance(x, torch.Tensor)]
    return [{i} for i in tensors] + ([set(tensors)] if len(tensors) > 1 else [])


@pytest.mark.parametrize("layout", READ)
@pytest.mark.parametrize("name", PLAIN)
def test_read_operands(npu: torch.device, name: str, layout: str) -> None:
    function, make = PLAIN[name]
    operands = make()
    for chosen in _choices(operands):
        views = _laid_out(operands, chosen, layout)
        _check(function(*_moved(views, npu)), function(*_plain(views)), f"operands {sorted(chosen)}")


@pytest.mark.parametrize("layout", WRITTEN)
@pytest.mark.parametrize("name", INPLACE)
def test_operand_written_in_place(npu: torch.device, name: str, layout: str) -> None:
    function, make = INPLACE[name]
    operands = make()
    for chosen in ({0}, set(range(len(operands)))):
        views = _laid_out(operands, chosen, layout)
        expected = _plain(views)
        function(*expected)
        target = views[0].to(npu)
        function(target.tensor, *_moved(views[1:], npu))
        _check(target.tensor, expected[0], f"operands {sorted(chosen)}")
        _check(
            target.buffer, views[0].expect_written(expected[0]), f"memory around, operands {sorted(chosen)}"
        )


@pytest.mark.parametrize("layout", WRITTEN)
@pytest.mark.parametrize("name", OUT)
def test_operand_written_as_out(npu: torch.device, name: str, layout: str) -> None:
    function, make = OUT[name]
    operands = make()
    results = function(*operands)
    expected = [results] if isinstance(results, torch.Tensor) else list(results)
    targets = [view(torch.zeros_like(e), layout) for e in expected]
    moved = [t.to(npu) for t in targets]
    out = moved[0].tensor if isinstance(results, torch.Tensor) else tuple(m.tensor for m in moved)
    function(*(x.to(npu) if isinstance(x, torch.Tensor) else x for x in operands), out=out)
    for target, host, value in zip(moved, targets, expected, strict=True):
        _check(target.tensor, value, "out")
        _check(target.buffer, host.expect_written(value), "memory around out")


def test_the_case_itself(npu: torch.device) -> None:
    source = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    index = torch.zeros(3, 2, dtype=torch.int64)
    index[1], index[2] = 1, 2  # no duplicates, so that the result is defined
    for transposed_index in (False, True):
        i = index.T.contiguous().to(npu).T if transposed_index else index.to(npu)
        result = torch.zeros(3, 2, device=npu).scatter_(0, i, source.to(npu).T)
        assert result.tolist() == [[1, 4], [2, 5], [3, 6]]
    # with duplicates any of the sources may win, but no other value may appear
    result = torch.zeros(3, 2, device=npu).scatter_(
        0, torch.zeros(3, 2, dtype=torch.int64, device=npu), source.to(npu).T
    )
    assert result[0, 0].item() in (1, 2, 3) and result[0, 1].item() in (4, 5, 6) and not result[1:].any()
    # masked_scatter_ into a transposed self
    base = torch.zeros(2, 3, device=npu)
    base.T.masked_scatter_(
        torch.tensor([[True, False], [True, True], [False, True]], device=npu),
        torch.arange(1.0, 7, device=npu),
    )
    assert base.tolist() == [[1, 2, 0], [0, 3, 4]]


@pytest.mark.parametrize("layout", READ)
def test_gradients_through_every_layout(npu: torch.device, layout: str) -> None:
    operands = [torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)]

    def gradients(parts: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        parts = [p.detach().requires_grad_() for p in parts]
        loss = F.softmax(F.linear(*parts), -1).square().sum()
        return tuple(torch.autograd.grad(loss, parts))

    for chosen in _choices(operands):
        views = _laid_out(operands, chosen, layout)
        _check(gradients(_moved(views, npu)), gradients(_plain(views)), f"operands {sorted(chosen)}")
