"""Reductions, scans, sorting, softmax."""

from __future__ import annotations

import numpy as np

from tests.conformance.ge_ops.case import AXES, AXIS, FLOATS, NUMBERS, Case, Op, X

WITH_EMPTY = (*AXES, ((2, 0, 3), [1]), ((0, 3), [1]))


def reduction(type, reference, types=NUMBERS, axes=AXES, domain="any", loose=4.0, as_attribute=False):
    cases = []
    for shape, over in axes:
        for keep in (False, True):

            def expected(x, over=over, keep=keep):
                return reference(x, axis=tuple(over), keepdims=keep)

            attributes = {"keep_dims": keep} | ({"axes": over} if as_attribute else {})
            cases.append(
                Case([X(shape, domain)] if as_attribute else [X(shape, domain), over], expected, attributes)
            )
    return Op(type, types, cases, loose)  # fmt: skip


def along(type, reference, types=NUMBERS, domain="any", loose=1.0, name="axis", listed=True, **attributes):
    """One axis in an attribute `name`."""
    return Op(type, types, [
        Case([X(shape, domain)], lambda x, axis=axis: reference(x, axis), {name: [axis] if listed else axis, **attributes})
        for shape, axis in (*AXIS, ((2, 3, 4), 0))], loose)  # fmt: skip


def by_input(type, reference, types=NUMBERS, domain="any", loose=1.0, **attributes):
    """One axis as the second input."""
    return Op(type, types, [
        Case([X(shape, domain), np.array(axis, np.int64)], lambda x, axis=axis: reference(x, axis), attributes)
        for shape, axis in (*AXIS, ((2, 3, 4), 0))], loose)  # fmt: skip


def whole(function):
    """Sums of integers stay in their type."""
    return lambda x, **named: function(x, **named).astype(x.dtype)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis):
    return np.log(softmax(x, axis))


def log_sum_exp(x, axis, keepdims):
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


def running(function, index):
    def reference(x, axis):
        best = function.accumulate(x, axis=axis)
        moved, values = np.moveaxis(x, axis, -1), np.moveaxis(best, axis, -1)
        found = np.zeros(moved.shape, np.int64)
        for at in np.ndindex(moved.shape):
            row = moved[at[:-1]][: at[-1] + 1]
            found[at] = np.flatnonzero(row == values[at])[-1]  # of equals the last, as torch
        return [best, np.moveaxis(found, -1, axis).astype(index)]

    return reference


def topk(k, largest=True):
    def reference(x, axis):
        order = np.argsort(-x if largest else x, axis, kind="stable")
        order = np.take(order, range(k), axis)
        return [np.take_along_axis(x, order, axis), order.astype(np.int32)]

    return reference


def sort(x, axis, descending=False):
    order = np.argsort(-x if descending else x, axis, kind="stable")
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


ONE = [(s, a) for s, a in AXES if len(a) == 1]
OPS = [
    reduction("ReduceSum", whole(np.sum), axes=WITH_EMPTY),
    reduction("ReduceMean", np.mean, FLOATS),
    reduction("ReduceMax", np.max),
    reduction("ReduceMin", np.min),
    reduction(
        "ReduceProd",
        lambda x, axis, keepdims: np.prod(x, axis=axis[0], keepdims=keepdims),
        "f4 f2 b2",
        [*ONE, ((2, 0, 3), [1])],
    ),
    reduction("ReduceAll", np.all, "b1", WITH_EMPTY),
    reduction("ReduceAny", np.any, "b1", WITH_EMPTY),
    reduction("ReduceLogSumExp", log_sum_exp, FLOATS),
    reduction("ReduceSumD", np.sum, FLOATS, as_attribute=True),
    reduction("ReduceMeanD", np.mean, "f4 f2", as_attribute=True),
    reduction("ReduceMaxD", np.max, "f4 f2 i4", as_attribute=True),
    reduction("ReduceMinD", np.min, "f4 f2 i4", as_attribute=True),
    by_input("ArgMaxV2", lambda x, a: x.argmax(a), "f4 f2 b2 i4 i8", "distinct", dtype="int64"),
    by_input("ArgMaxV2", lambda x, a: x.argmax(a).astype(np.int32), "f4", "distinct", dtype="int32"),
    by_input("ArgMin", lambda x, a: x.argmin(a), "f4 f2 b2 i4 i8", "distinct", dtype="int64"),
    along(
        "ArgMaxD",
        lambda x, a: x.argmax(a),
        "f4 f2",
        "distinct",
        name="dimension",
        listed=False,
        dtype="int64",
    ),
    along(
        "ArgMinD",
        lambda x, a: x.argmin(a),
        "f4 f2",
        "distinct",
        name="dimension",
        listed=False,
        dtype="int64",
    ),
    by_input("Cumsum", lambda x, a: x.cumsum(a, dtype=x.dtype), NUMBERS, loose=8),
    by_input("Cumprod", lambda x, a: x.cumprod(a, dtype=x.dtype), FLOATS, loose=8),
    along("Cummax", running(np.maximum, np.int32), "f4 f2 b2 i4 i8", "distinct", name="dim", listed=False),
    along("Cummin", running(np.minimum, np.int32), "f4 f2 b2 i4 i8", "distinct", name="axis", listed=False),
    Op(
        "TopKV2",
        "f4 f2 b2 i4 i8",
        [
            Case(
                [X(s, "distinct"), np.array([k], np.int32)],
                lambda x, a=a, k=k, big=big: topk(k, big)(x, a),
                {"dim": a, "largest": big},
            )
            for s, a, k in (((7,), 0, 3), ((2, 5), -1, 2), ((4, 3), 0, 4), ((2, 1), 1, 1))
            for big in (True, False)
        ],
    ),
    Op(
        "TopK",
        "f4 i4",
        [
            Case([X(s, "distinct"), np.array([k], np.int32)], lambda x, k=k: topk(k)(x, -1), {})
            for s, k in (((7,), 3), ((2, 5), 2))
        ],
    ),
    along("Sort", sort, "f4 f2 b2 i4 i8", "distinct", listed=False),
    along(
        "Sort", lambda x, a: sort(x, a, True), "f4 i4", "distinct", listed=False, descending=True, stable=True
    ),
    along("SoftmaxV2", softmax, FLOATS, name="axes"),
    along("LogSoftmaxV2", log_softmax, FLOATS, name="axes", loose=2),
    Op(
        "SoftmaxGrad",
        FLOATS,
        [
            Case(
                [X(s, "weights"), X(s)],
                lambda y, g, a=a: (g - (g * y).sum(a, keepdims=True)) * y,
                {"axes": [a]},
            )
            for s, a in AXIS
        ],
        4,
    ),
    Op(
        "LogSoftmaxGrad",
        FLOATS,
        [
            Case(
                [X(s), X(s, "small")],
                lambda g, y, a=a: g - np.exp(y) * g.sum(a, keepdims=True),
                {"axis": [a]},
            )
            for s, a in AXIS
        ],
        4,
    ),
]
