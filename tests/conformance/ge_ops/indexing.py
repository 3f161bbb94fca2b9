"""Gathering, scattering, creation, state."""

from __future__ import annotations

import numpy as np

from tests.conformance.ge_ops.case import ANY, NUMBERS, SHAPES, X
from tests.conformance.ge_ops.movement import op

INDEX = "i8"


def ids(bound, *shape, type=INDEX):
    return X(shape, f"below{bound}", type)


def take_nd(x, i):
    return x[tuple(np.moveaxis(i, -1, 0))]


def put_nd(x, i, u):
    out = x.copy()
    out[tuple(np.moveaxis(i, -1, 0))] = u
    return out


def put_along(x, i, u, axis, how=None):
    out = x.copy()
    for at in np.ndindex(i.shape):
        to = list(at)
        to[axis] = i[at]
        out[tuple(to)] = u[at] if how is None else how(out[tuple(to)], u[at])
    return out


def one_hot(i, depth, on, off, axis):
    out = np.where(np.arange(depth) == i[..., None], on, off)
    return out if axis == -1 else np.moveaxis(out, -1, axis)


def masked_scatter(x, mask, updates):
    out = x.copy()
    out[mask] = updates.reshape(-1)[: mask.sum()]
    return out


INDEX_OPS = [
    op(
        "GatherV2",
        ANY,
        ([X((4, 3)), ids(4, 2), np.array(0)], lambda x, i: x[i]),
        ([X((4, 3)), ids(3, 2, 2), np.array(-1)], lambda x, i: x[:, i]),
        ([X((5,)), ids(5), np.array(0)], lambda x, i: x[i]),
        ([X((2, 3, 4)), ids(3, 0), np.array(1)], lambda x, i: x[:, i]),
        ([X((4, 3)), ids(4, 3, type="i4"), np.array(0)], lambda x, i: x[i]),
    ),
    op(
        "Gather",
        ANY,
        ([X((4, 3)), ids(4, 2)], lambda x, i: x[i]),
        ([X((5,)), ids(5, 2, 3)], lambda x, i: x[i]),
    ),
    op(
        "GatherNd",
        ANY,
        ([X((4, 3)), ids(3, 2, 2)], take_nd),
        ([X((4, 3)), ids(4, 5, 1)], take_nd),
        ([X((3, 3, 2)), ids(3, 2, 2, 2)], take_nd),
    ),
    op(
        "GatherElements",
        ANY,
        ([X((4, 3)), ids(4, 2, 3)], lambda x, i: np.take_along_axis(x, i, 0), {"dim": 0}),
        ([X((4, 3)), ids(3, 4, 2)], lambda x, i: np.take_along_axis(x, i, 1), {"dim": -1}),
    ),
    op(
        "ScatterElements",
        NUMBERS,
        (
            [X((4, 3)), np.array([[0, 1, 2], [3, 0, 1]]), X((2, 3))],
            lambda x, u: put_along(x, np.array([[0, 1, 2], [3, 0, 1]]), u, 0),
            {"axis": 0},
        ),
        (
            [X((2, 4)), ids(4, 2, 3), X((2, 3))],
            lambda x, i, u: put_along(x, i, u, 1, lambda a, b: a + b),
            {"axis": 1, "reduction": "add"},
        ),
        loose=4,
    ),
    op(
        "OneHot",
        "i4 i8",
        *(
            (
                [
                    ids(5, *s, type=None),
                    np.array(5, np.int32),
                    lambda t: np.array(3, np.float32),
                    lambda t: np.array(-1, np.float32),
                ],
                lambda i, a=a: one_hot(i, 5, 3.0, -1.0, a),
                {"axis": a},
            )
            for s, a in (((3,), -1), ((2, 3), 0), ((2, 3), 1), ((), -1), ((0,), -1))
        ),
    ),
    op(
        "ScatterNdUpdate",
        "f4 f2 b2 i4 i8",
        ([X((4, 3)), np.array([[0], [2]]), X((2, 3))], lambda x, u: put_nd(x, np.array([[0], [2]]), u)),
        (
            [X((4, 3)), np.array([[0, 1], [2, 2]]), X((2,))],
            lambda x, u: put_nd(x, np.array([[0, 1], [2, 2]]), u),
        ),
        compiled=True,
    ),
    op(
        "TensorScatterUpdate",
        ANY,
        ([X((4, 3)), np.array([[0], [2]]), X((2, 3))], lambda x, u: put_nd(x, np.array([[0], [2]]), u)),
        ([X((5,)), np.array([[4], [1]]), X((2,))], lambda x, u: put_nd(x, np.array([[4], [1]]), u)),
    ),
    op(
        "MaskedScatter",
        ANY,
        *(([X(s), X(s, "any", "b1"), X(s)], masked_scatter) for s in ((5,), (2, 3), (1, 4))),
    ),
    op(
        "EmbeddingDenseGrad",
        "f4",
        (
            [X((4, 3)), ids(5, 4)],
            lambda g, i: put_along(np.zeros((5, 3)), np.repeat(i[:, None], 3, 1), g, 0, lambda a, b: a + b),
            {"num_weights": 5},
        ),
        (
            [X((2, 3, 2)), ids(4, 2, 3)],
            lambda g, i: put_along(
                np.zeros((4, 2)), np.repeat(i.reshape(-1, 1), 2, 1), g.reshape(6, 2), 0, lambda a, b: a + b
            ),
            {"num_weights": 4},
        ),
    ),
]

MADE = [
    op(
        "Fill",
        ANY,
        *(([np.array(s, np.int64), X(())], lambda v, s=s: np.full(s, v)) for s in ((2, 3), (1,), (0, 2))),
    ),
    op(
        "Range",
        "f4 i4 i8",
        (
            [lambda t: np.array(1, t), lambda t: np.array(8, t), lambda t: np.array(2, t)],
            lambda: np.arange(1, 8, 2),
        ),
        (
            [lambda t: np.array(5, t), lambda t: np.array(0, t), lambda t: np.array(-1, t)],
            lambda: np.arange(5, 0, -1),
        ),
    ),
    op(
        "LinSpace",
        "f4",
        *(
            (
                [np.array(0, np.float32), np.array(3, np.float32), np.array([n], np.int32)],
                lambda n=n: np.linspace(0, 3, n),
            )
            for n in (4, 1, 7)
        ),
    ),
    op(
        "Eye",
        "f4",
        *(
            ([], lambda n=n, m=m: np.eye(n, m), {"num_rows": n, "num_columns": m, "dtype": 0})
            for n, m in ((3, 3), (2, 4), (4, 1))
        ),
    ),
    op("Assign", NUMBERS, *(([X(s), X(s)], lambda r, v: v) for s in SHAPES[1:4]), compiled=True),
]

OPS = [*INDEX_OPS, *MADE]
