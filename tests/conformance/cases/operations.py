"""Operations for the layout and the empty-operand cases: a function, and the operands it is called with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

Entry = tuple[Callable[..., Any], Callable[[], list[Any]]]


def _floats(*shape: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(sum(shape) + 31 * len(shape))
    return torch.randn(shape, generator=source)


def _distinct_rows(rows: int, columns: int, below: int) -> torch.Tensor:
    """Indices [rows, columns] below a bound, without a duplicate in any column (also if all columns are
    made equal).
    """
    source = torch.Generator().manual_seed(7)
    return torch.stack([torch.randperm(below, generator=source)[:rows] for _ in range(columns)], 1)


def _places(count: int, below: int) -> torch.Tensor:
    return torch.randperm(below, generator=torch.Generator().manual_seed(3))[:count]


def _mask(*shape: int) -> torch.Tensor:
    return _floats(*shape) > 0


def _unary(function: Callable[..., Any]) -> Entry:
    return function, lambda: [_floats(4, 6, 5)]


def _binary(function: Callable[..., Any]) -> Entry:
    return function, lambda: [_floats(4, 6, 5), _floats(4, 6, 5)]


#: Out of place.
PLAIN: dict[str, Entry] = {
    "add": _binary(torch.add),
    "add, broadcast": (torch.add, lambda: [_floats(4, 6, 5), _floats(6, 1)]),
    "mul": _binary(torch.mul),
    "div": _binary(torch.div),
    "maximum": _binary(torch.maximum),
    "less": _binary(torch.lt),
    "atan2": _binary(torch.atan2),
    "where": (torch.where, lambda: [_mask(4, 6), _floats(4, 6), _floats(4, 6).neg()]),
    "lerp": (torch.lerp, lambda: [_floats(4, 6), _floats(4, 6).neg(), _floats(4, 6).abs()]),
    "addcmul": (torch.addcmul, lambda: [_floats(4, 6), _floats(4, 6).neg(), _floats(4, 6).abs()]),
    "exp": _unary(torch.exp),
    # torch_npu's gelu knows the tanh form only (docs/opinfo.md)
    "gelu": _unary(partial(F.gelu, approximate="tanh")),
    "silu": _unary(F.silu),
    "to bfloat16 and back": _unary(lambda x: x.bfloat16().float()),
    "to int32": _unary(lambda x: (10 * x).int()),
    "clone": _unary(torch.clone),
    "contiguous": _unary(lambda x: x.contiguous()),
    "reshape": _unary(lambda x: x.reshape(-1)),
    "mm": (torch.mm, lambda: [_floats(4, 6), _floats(6, 5)]),
    "bmm": (torch.bmm, lambda: [_floats(3, 4, 6), _floats(3, 6, 5)]),
    "matmul, broadcast": (torch.matmul, lambda: [_floats(3, 4, 6), _floats(6, 5)]),
    "mv": (torch.mv, lambda: [_floats(4, 6), _floats(6)]),
    "addmm": (torch.addmm, lambda: [_floats(4, 5), _floats(4, 6), _floats(6, 5)]),
    "baddbmm": (torch.baddbmm, lambda: [_floats(3, 4, 5), _floats(3, 4, 6), _floats(3, 6, 5)]),
    "linear": (F.linear, lambda: [_floats(2, 4, 6), _floats(5, 6), _floats(5)]),
    "conv2d": (F.conv2d, lambda: [_floats(2, 3, 7, 8), _floats(4, 3, 3, 3), _floats(4)]),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, [5], w, b),
        lambda: [_floats(4, 6, 5), _floats(5), _floats(5)],
    ),
    "softmax": _unary(lambda x: torch.softmax(x, 1)),
    "log_softmax": _unary(lambda x: torch.log_softmax(x, -1)),
    "cross_entropy": (F.cross_entropy, lambda: [_floats(6, 9), _places(6, 9)]),
    "sum": _unary(lambda x: x.sum(1)),
    "mean over two axes": _unary(lambda x: x.mean((0, 2))),
    "amax": _unary(lambda x: x.amax(1)),
    "argmax": _unary(lambda x: x.argmax()),
    "var": _unary(lambda x: x.var(2)),
    "norm": _unary(lambda x: torch.linalg.vector_norm(x, dim=0)),
    "all": (torch.all, lambda: [_mask(4, 6)]),
    "cumsum": _unary(lambda x: x.cumsum(1)),
    "cummax": _unary(lambda x: torch.cummax(x, 1).values),
    "sort": _unary(lambda x: torch.sort(x, dim=1, stable=True)),
    "argsort": _unary(lambda x: torch.argsort(x, dim=0, stable=True)),
    "topk": _unary(lambda x: torch.topk(x, 3, 1).values),
    "kthvalue": _unary(lambda x: torch.kthvalue(x, 2, 1).values),
    "nonzero": (torch.nonzero, lambda: [_mask(4, 6)]),
    "unique": (torch.unique, lambda: [_distinct_rows(5, 4, 9)]),
    "searchsorted": (
        torch.searchsorted,
        lambda: [torch.arange(30.0).reshape(3, 10), 10 * _floats(3, 4).abs()],
    ),
    "bucketize": (torch.bucketize, lambda: [10 * _floats(3, 4), torch.arange(-10.0, 10.0)]),
    "isin": (torch.isin, lambda: [_distinct_rows(5, 4, 9), _places(4, 9)]),
    "one_hot": (lambda i: F.one_hot(i, 9), lambda: [_distinct_rows(5, 4, 9)]),
    "gather": (lambda x, i: torch.gather(x, 0, i), lambda: [_floats(9, 4), _distinct_rows(5, 4, 9)]),
    "take": (torch.take, lambda: [_floats(9, 4), _distinct_rows(5, 4, 9)]),
    "take_along_dim": (
        lambda x, i: torch.take_along_dim(x, i, 0),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9)],
    ),
    "index_select": (lambda x, i: torch.index_select(x, 1, i), lambda: [_floats(4, 9), _places(5, 9)]),
    "embedding": (F.embedding, lambda: [_distinct_rows(5, 4, 9), _floats(9, 6)]),
    "index": (lambda x, i, j: x[i, :, j], lambda: [_floats(9, 3, 8), _places(5, 9), _places(5, 8)]),
    "index, in the middle": (lambda x, i: x[:, i], lambda: [_floats(3, 9, 4), _distinct_rows(5, 4, 9)]),
    "index by mask": (lambda x, m: x[m], lambda: [_floats(4, 6), _mask(4, 6)]),
    "masked_select": (torch.masked_select, lambda: [_floats(4, 6), _mask(4, 6)]),
    "scatter": (
        lambda x, i, s: torch.scatter(x, 0, i, s),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9), _floats(5, 4)],
    ),
    "scatter of a number": (
        lambda x, i: torch.scatter(x, 0, i, 2.5),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9)],
    ),
    "scatter_add": (
        lambda x, i, s: torch.scatter_add(x, 0, i, s),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9) % 3, _floats(5, 4)],
    ),
    "scatter_reduce": (
        lambda x, i, s: torch.scatter_reduce(x, 0, i, s, "amax"),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9) % 3, _floats(5, 4)],
    ),
    "index_add": (
        lambda x, i, s: torch.index_add(x, 0, i, s),
        lambda: [_floats(9, 4), _places(5, 9) % 3, _floats(5, 4)],
    ),
    "index_copy": (
        lambda x, i, s: torch.index_copy(x, 0, i, s),
        lambda: [_floats(9, 4), _places(5, 9), _floats(5, 4)],
    ),
    "index_fill": (lambda x, i: torch.index_fill(x, 0, i, 2.5), lambda: [_floats(9, 4), _places(5, 9)]),
    "index_put": (
        lambda x, i, j, v: torch.index_put(x, (i, j), v),
        lambda: [_floats(9, 8), _places(5, 9), _places(5, 8), _floats(5)],
    ),
    "index_put, accumulating": (
        lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True),
        lambda: [_floats(9, 8), _places(5, 9) % 3, _floats(5, 8)],
    ),
    "masked_fill": (lambda x, m: x.masked_fill(m, 2.5), lambda: [_floats(4, 6), _mask(4, 6)]),
    "masked_scatter": (
        lambda x, m, s: x.masked_scatter(m, s),
        lambda: [_floats(4, 6), _mask(4, 6), _floats(4, 6).neg()],
    ),
    "cat": (lambda *x: torch.cat(x, 1), lambda: [_floats(4, 6), _floats(4, 2), _floats(4, 5)]),
    "stack": (lambda *x: torch.stack(x, 1), lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "flip": _unary(lambda x: x.flip(0, 2)),
    "roll": _unary(lambda x: x.roll((1, -2), (0, 1))),
    "repeat": _unary(lambda x: x.repeat(2, 1, 3)),
    "repeat_interleave": _unary(lambda x: x.repeat_interleave(3, 1)),
    "tril": _unary(torch.tril),
    "triu": _unary(lambda x: x.triu(1)),
    "diagonal": _unary(lambda x: x.diagonal(0, 1, 2).contiguous()),
    "pad": _unary(lambda x: F.pad(x, (1, 2, 0, 3), value=2.5)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), lambda: [_floats(2, 3, 8, 6)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), lambda: [_floats(2, 3, 8, 6)]),
}

#: In place, into the first operand.
INPLACE: dict[str, Entry] = {
    "copy_": (lambda x, y: x.copy_(y), lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "copy_ from a row": (lambda x, y: x.copy_(y), lambda: [_floats(4, 6), _floats(6)]),
    "copy_ from another dtype": (lambda x, y: x.copy_(y), lambda: [_floats(4, 6), _distinct_rows(4, 6, 9)]),
    "add_": (lambda x, y: x.add_(y, alpha=2), lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "add_ of a number": (lambda x: x.add_(2.5), lambda: [_floats(4, 6)]),
    "mul_": (lambda x, y: x.mul_(y), lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "div_": (lambda x, y: x.div_(y), lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "addcmul_": (
        lambda x, y, z: x.addcmul_(y, z),
        lambda: [_floats(4, 6), _floats(4, 6).neg(), _floats(4, 6)],
    ),
    "addcdiv_": (
        lambda x, y, z: x.addcdiv_(y, z),
        lambda: [_floats(4, 6), _floats(4, 6), _floats(4, 6).exp()],
    ),
    "lerp_": (lambda x, y: x.lerp_(y, 0.25), lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "clamp_": (lambda x: x.clamp_(-0.5, 0.5), lambda: [_floats(4, 6)]),
    "exp_": (lambda x: x.exp_(), lambda: [_floats(4, 6)]),
    "relu_": (lambda x: x.relu_(), lambda: [_floats(4, 6)]),
    "zero_": (lambda x: x.zero_(), lambda: [_floats(4, 6)]),
    "fill_": (lambda x: x.fill_(2.5), lambda: [_floats(4, 6)]),
    "fill_diagonal_": (lambda x: x.fill_diagonal_(2.5), lambda: [_floats(4, 6)]),
    "tril_": (lambda x: x.tril_(), lambda: [_floats(6, 6)]),
    "addmm_": (lambda x, y, z: x.addmm_(y, z), lambda: [_floats(4, 5), _floats(4, 6), _floats(6, 5)]),
    "baddbmm_": (
        lambda x, y, z: x.baddbmm_(y, z, beta=0.5),
        lambda: [_floats(3, 4, 5), _floats(3, 4, 6), _floats(3, 6, 5)],
    ),
    "cumsum_": (lambda x: x.cumsum_(0), lambda: [_floats(4, 6)]),
    "scatter_": (
        lambda x, i, s: x.scatter_(0, i, s),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9), _floats(5, 4)],
    ),
    "scatter_add_": (
        lambda x, i, s: x.scatter_add_(0, i, s),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9) % 3, _floats(5, 4)],
    ),
    "index_add_": (
        lambda x, i, s: x.index_add_(0, i, s),
        lambda: [_floats(9, 4), _places(5, 9) % 3, _floats(5, 4)],
    ),
    "index_copy_": (
        lambda x, i, s: x.index_copy_(0, i, s),
        lambda: [_floats(9, 4), _places(5, 9), _floats(5, 4)],
    ),
    "index_fill_": (lambda x, i: x.index_fill_(0, i, 2.5), lambda: [_floats(9, 4), _places(5, 9)]),
    "index_put_": (
        lambda x, i, v: x.index_put_((i,), v),
        lambda: [_floats(9, 4), _places(5, 9), _floats(5, 4)],
    ),
    "index_put_, accumulating": (
        lambda x, i, v: x.index_put_((i,), v, accumulate=True),
        lambda: [_floats(9, 4), _places(5, 9) % 3, _floats(5, 4)],
    ),
    "setting by mask": (lambda x, m: x.__setitem__(m, 2.5), lambda: [_floats(4, 6), _mask(4, 6)]),
    "setting a slice": (lambda x, y: x[1:3].copy_(y), lambda: [_floats(4, 6), _floats(2, 6)]),
    "masked_fill_": (lambda x, m: x.masked_fill_(m, 2.5), lambda: [_floats(4, 6), _mask(4, 6)]),
    "masked_scatter_": (
        lambda x, m, s: x.masked_scatter_(m, s),
        lambda: [_floats(4, 6), _mask(4, 6), _floats(4, 6).neg()],
    ),
    "put_": (lambda x, i, s: x.put_(i, s), lambda: [_floats(9, 4), _places(5, 36), _floats(5)]),
}

#: Functions that take out=.
OUT: dict[str, Entry] = {
    "add": (torch.add, lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "mul": (torch.mul, lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "exp": (torch.exp, lambda: [_floats(4, 6)]),
    "less": (torch.lt, lambda: [_floats(4, 6), _floats(4, 6).neg()]),
    "mm": (torch.mm, lambda: [_floats(4, 6), _floats(6, 5)]),
    "bmm": (torch.bmm, lambda: [_floats(3, 4, 6), _floats(3, 6, 5)]),
    "addmm": (torch.addmm, lambda: [_floats(4, 5), _floats(4, 6), _floats(6, 5)]),
    "sum": (lambda x, **out: torch.sum(x, 1, **out), lambda: [_floats(4, 6, 5)]),
    "mean": (lambda x, **out: torch.mean(x, 0, **out), lambda: [_floats(4, 6, 5)]),
    "cumsum": (lambda x, **out: torch.cumsum(x, 1, **out), lambda: [_floats(4, 6)]),
    "softmax": (lambda x, **out: torch.softmax(x, 1, **out), lambda: [_floats(4, 6)]),
    "max": (lambda x, **out: torch.max(x, 1, **out), lambda: [_floats(4, 6, 5)]),
    "sort": (lambda x, **out: torch.sort(x, dim=1, stable=True, **out), lambda: [_floats(4, 6)]),
    "topk": (lambda x, **out: torch.topk(x, 3, 1, **out), lambda: [_floats(4, 6)]),
    "cat": (lambda x, y, **out: torch.cat((x, y), 1, **out), lambda: [_floats(4, 6), _floats(4, 2)]),
    "gather": (
        lambda x, i, **out: torch.gather(x, 0, i, **out),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9)],
    ),
    "index_select": (
        lambda x, i, **out: torch.index_select(x, 1, i, **out),
        lambda: [_floats(4, 9), _places(5, 9)],
    ),
    "scatter": (
        lambda x, i, s, **out: torch.scatter(x, 0, i, s, **out),
        lambda: [_floats(9, 4), _distinct_rows(5, 4, 9), _floats(5, 4)],
    ),
    "tril": (torch.tril, lambda: [_floats(6, 6)]),
}
