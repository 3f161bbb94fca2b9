"""Operators that move elements: views, slices, joins, padding, indexing, creation."""

from __future__ import annotations

import numpy as np

from tests.conformance.ge_ops.case import ANY, NUMBERS, SHAPES, Case, Op, X

INDEX = "i8"


def op(type, types, *rows, loose=1.0, compiled=False):
    """Rows: (inputs, reference) or (inputs, reference, attributes) or (.., outputs)."""
    return Op(type, types, [Case(*row) for row in rows], loose, compiled)


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


def parts(sizes, axis):
    return lambda x: [each.copy() for each in np.split(x, np.cumsum(sizes)[:-1], axis)]


PADS = [((2, 3), [[1, 2], [0, 3]]), ((4,), [[0, 0]]), ((2, 0), [[1, 0], [1, 1]]), ((1, 2, 3), [[0, 1], [2, 0], [1, 1]])]
JOINS = [([(2, 3), (2, 1), (2, 4)], 1), ([(2, 3), (2, 0)], -1), ([(3,), (1,)], 0), ([(1, 2), (4, 2)], -2)]
SPLITS = [((2, 6), 1, 3), ((4,), 0, 2), ((3, 1, 2), -1, 2), ((2, 0), 1, 2)]
UNEVEN = [((2, 6), 1, [1, 2, 3]), ((5,), 0, [5]), ((3, 4), -1, [0, 4])]
TURNS = [((2, 3, 4), [2, 0, 1]), ((2, 3), [1, 0]), ((), []), ((0, 3), [1, 0]), ((1, 5, 1), [2, 1, 0])]


def pads(type, with_value=False, **attributes):
    rows = []
    for shape, pad in PADS:
        value = [lambda t: np.array(1, t)] if with_value else []
        rows.append(([X(shape), np.array(pad), *value],
                     lambda x, pad=pad: np.pad(x, pad, constant_values=1 if with_value else 0), attributes))
    return op(type, "f4 f2 b2 i4 i8", *rows)  # fmt: skip


def joins(type, where, types=ANY):
    rows = []
    for shapes, axis in JOINS:
        xs = [X(s) for s in shapes]
        inputs = {"last": [xs, np.array(axis, np.int64)], "first": [np.array(axis, np.int64), xs], "attribute": [xs]}[where]
        attributes = {"N": len(shapes)} | ({"concat_dim": axis} if where == "attribute" else {})
        rows.append((inputs, lambda a, axis=axis: np.concatenate(a, axis), attributes))
    return op(type, types, *rows)


VIEW_OPS = [
    op("Reshape", ANY, *(([X(s), np.array(to, np.int64)], lambda x, to=to: x.reshape(to)) for s, to in
       (((2, 3), [3, 2]), ((2, 3), [-1]), ((1,), []), ((), [1, 1]), ((0, 4), [2, 0])))),
    op("Squeeze", ANY, *(([X((1, 2, 1, 3))], lambda x, a=a: x.squeeze(tuple(a) or None), {"axis": a}) for a in ([], [0], [-2], [0, 2]))),
    op("Unsqueeze", ANY, *(([X((2, 3))], lambda x, a=a: np.expand_dims(x, tuple(a)), {"axes": a}) for a in ([0], [-1], [1, 3]))),
    op("ExpandDims", ANY, *(([X((2, 3)), np.array([a])], lambda x, a=a: np.expand_dims(x, a)) for a in (0, 1, -1))),
    op("Flatten", ANY, ([X((2, 3, 4))], lambda x: x.reshape(2, 12)), ([X((2, 3, 4))], lambda x: x.reshape(6, 4), {"axis": 2})),
    op("FlattenV2", ANY, ([X((2, 3, 4))], lambda x: x.reshape(2, 12)), ([X((2, 3, 4))], lambda x: x.reshape(6, 4), {"axis": 0, "end_axis": 1})),
    op("Transpose", ANY, *(([X(s), np.array(p, np.int64)], lambda x, p=p: x.transpose(p)) for s, p in TURNS)),
    op("TransposeD", "f4 f2 i4 i8", *(([X(s)], lambda x, p=p: x.transpose(p), {"perm": p}) for s, p in TURNS if p)),
    op("BroadcastTo", ANY, *(([X(s), np.array(to, np.int64)], lambda x, to=to: np.broadcast_to(x, to)) for s, to in
       (((3,), [2, 3]), ((), [2]), ((1, 4), [3, 4]), ((2, 1, 3), [2, 5, 3]), ((1,), [0]), ((2, 3), [2, 3])))),
    op("Tile", ANY, *(([X(s), np.array(m, np.int64)], lambda x, m=m: np.tile(x, m)) for s, m in (((2, 3), [1, 2]), ((4,), [3]), ((1, 1), [2, 2]), ((2,), [0])))),
    op("ReverseV2", ANY, *(([X(s), np.array(a, np.int64)], lambda x, a=a: np.flip(x, a)) for s, a in (((2, 3), [1]), ((2, 3, 4), [0, -1]), ((1,), [0]), ((0, 2), [1])))),
    op("Roll", "f4 f2 b2 i4 i8", *(([X(s)], lambda x, n=n, d=d: np.roll(x, n, d), {"shifts": list(n), "dims": list(d)}) for s, n, d in
       (((5,), (2,), (0,)), ((2, 3), (1, -1), (0, 1)), ((4, 1), (7,), (-2,))))),
    op("Triu", "f4 f2 b2 i4 i8", *(([X(s)], lambda x, k=k: np.triu(x, k), {"diagonal": k}) for s in ((3, 4), (2, 4, 3), (1, 1)) for k in (0, 1, -1))),
    op("Tril", "f4 f2 b2 i4 i8", *(([X(s)], lambda x, k=k: np.tril(x, k), {"diagonal": k}) for s in ((3, 4), (2, 4, 3), (1, 1)) for k in (0, 1, -1))),
]  # fmt: skip

JOIN_OPS = [
    joins("ConcatV2", "last"),
    joins("Concat", "first"),
    joins("ConcatD", "attribute"),
    joins("ConcatV2D", "attribute", NUMBERS),
    op("Pack", ANY, *(([[X(s), X(s)]], lambda a, k=k: np.stack(a, k), {"axis": k, "N": 2}) for s, k in (((2, 3), 0), ((2, 3), -1), ((2, 3), 1), ((), 0), ((0,), 0)))),
    op("Split", ANY, *(([np.array(k, np.int64), X(s)], lambda x, k=k, n=n: np.split(x, n, k), {"num_split": n}, n) for s, k, n in SPLITS)),
    op("SplitD", ANY, *(([X(s)], lambda x, k=k, n=n: np.split(x, n, k), {"split_dim": k, "num_split": n}, n) for s, k, n in SPLITS)),
    op("SplitV", ANY, *(([X(s), np.array(z, np.int64), np.array(k, np.int64)], parts(z, k), {"num_split": len(z)}, len(z)) for s, k, z in UNEVEN)),
    op("SplitVD", "f4 f2 i4 i8 b1", *(([X(s)], parts(z, k), {"size_splits": z, "split_dim": k, "num_split": len(z)}, len(z)) for s, k, z in UNEVEN)),
    op("Slice", NUMBERS, ([X((4, 6)), [1, 2], [2, 3]], lambda x: x[1:3, 2:5]), ([X((5,)), [0], [5]], lambda x: x), ([X((5,)), [2], [0]], lambda x: x[2:2]),
       ([X((3, 4)), [1, 0], [-1, 2]], lambda x: x[1:, :2])),
    op("StridedSlice", ANY, ([X((4, 6)), [0, 1], [4, 6], [2, 2]], lambda x: x[0:4:2, 1:6:2]), ([X((5,)), [-3], [5], [1]], lambda x: x[-3:5]),
       ([X((4, 6)), [1, 0], [2, 6], [1, 1]], lambda x: x[1, 0:6], {"shrink_axis_mask": 1}), ([X((4, 6)), [1], [0], [1]], lambda x: x[1:], {"end_mask": 1}),
       ([X((4,)), [2], [2], [1]], lambda x: x[2:2])),
    op("StridedSliceV2", ANY, ([X((4, 6)), [0, 1], [4, 6], [0, 1], [2, 2]], lambda x: x[0:4:2, 1:6:2]), ([X((4, 6)), [1], [5], [1], [1]], lambda x: x[:, 1:5]),
       ([X((4, 6)), [1], [-1], [-1], [3]], lambda x: x[:, 1:-1:3])),
    pads("Pad"),
    pads("PadV2", True),
    pads("PadV3", True),
    pads("PadV3"),
]  # fmt: skip

INDEX_OPS = [
    op("GatherV2", ANY, ([X((4, 3)), ids(4, 2), np.array(0)], lambda x, i: x[i]), ([X((4, 3)), ids(3, 2, 2), np.array(-1)], lambda x, i: x[:, i]),
       ([X((5,)), ids(5), np.array(0)], lambda x, i: x[i]), ([X((2, 3, 4)), ids(3, 0), np.array(1)], lambda x, i: x[:, i]),
       ([X((4, 3)), ids(4, 3, type="i4"), np.array(0)], lambda x, i: x[i])),
    op("Gather", ANY, ([X((4, 3)), ids(4, 2)], lambda x, i: x[i]), ([X((5,)), ids(5, 2, 3)], lambda x, i: x[i])),
    op("GatherNd", ANY, ([X((4, 3)), ids(3, 2, 2)], take_nd), ([X((4, 3)), ids(4, 5, 1)], take_nd), ([X((3, 3, 2)), ids(3, 2, 2, 2)], take_nd)),
    op("GatherElements", ANY, ([X((4, 3)), ids(4, 2, 3)], lambda x, i: np.take_along_axis(x, i, 0), {"dim": 0}), ([X((4, 3)), ids(3, 4, 2)], lambda x, i: np.take_along_axis(x, i, 1), {"dim": -1})),
    op("ScatterElements", NUMBERS, ([X((4, 3)), np.array([[0, 1, 2], [3, 0, 1]]), X((2, 3))], lambda x, u: put_along(x, np.array([[0, 1, 2], [3, 0, 1]]), u, 0), {"axis": 0}),
       ([X((2, 4)), ids(4, 2, 3), X((2, 3))], lambda x, i, u: put_along(x, i, u, 1, lambda a, b: a + b), {"axis": 1, "reduction": "add"}), loose=4),
    op("OneHot", "i4 i8", *(([ids(5, *s, type=None), np.array(5, np.int32), lambda t: np.array(3, np.float32), lambda t: np.array(-1, np.float32)],
       lambda i, a=a: one_hot(i, 5, 3.0, -1.0, a), {"axis": a}) for s, a in (((3,), -1), ((2, 3), 0), ((2, 3), 1), ((), -1), ((0,), -1)))),
    op("ScatterNdUpdate", "f4 f2 b2 i4 i8", ([X((4, 3)), np.array([[0], [2]]), X((2, 3))], lambda x, u: put_nd(x, np.array([[0], [2]]), u)), ([X((4, 3)), np.array([[0, 1], [2, 2]]), X((2,))], lambda x, u: put_nd(x, np.array([[0, 1], [2, 2]]), u)), compiled=True),
    op("TensorScatterUpdate", ANY, ([X((4, 3)), np.array([[0], [2]]), X((2, 3))], lambda x, u: put_nd(x, np.array([[0], [2]]), u)), ([X((5,)), np.array([[4], [1]]), X((2,))], lambda x, u: put_nd(x, np.array([[4], [1]]), u))),
    op("MaskedScatter", ANY, *(([X(s), X(s, "any", "b1"), X(s)], masked_scatter) for s in ((5,), (2, 3), (1, 4)))),
    op("EmbeddingDenseGrad", "f4", ([X((4, 3)), ids(5, 4)], lambda g, i: put_along(np.zeros((5, 3)), np.repeat(i[:, None], 3, 1), g, 0, lambda a, b: a + b), {"num_weights": 5}),
       ([X((2, 3, 2)), ids(4, 2, 3)], lambda g, i: put_along(np.zeros((4, 2)), np.repeat(i.reshape(-1, 1), 2, 1), g.reshape(6, 2), 0, lambda a, b: a + b), {"num_weights": 4})),
]  # fmt: skip

MADE = [
    op("Fill", ANY, *(([np.array(s, np.int64), X(())], lambda v, s=s: np.full(s, v)) for s in ((2, 3), (1,), (0, 2)))),
    op("Range", "f4 i4 i8", ([lambda t: np.array(1, t), lambda t: np.array(8, t), lambda t: np.array(2, t)], lambda: np.arange(1, 8, 2)), ([lambda t: np.array(5, t), lambda t: np.array(0, t), lambda t: np.array(-1, t)], lambda: np.arange(5, 0, -1))),
    op("LinSpace", "f4", *(([np.array(0, np.float32), np.array(3, np.float32), np.array([n], np.int32)], lambda n=n: np.linspace(0, 3, n)) for n in (4, 1, 7))),
    op("Eye", "f4", *(([], lambda n=n, m=m: np.eye(n, m), {"num_rows": n, "num_columns": m, "dtype": 0}) for n, m in ((3, 3), (2, 4), (4, 1)))),
    op("Assign", NUMBERS, *(([X(s), X(s)], lambda r, v: v) for s in SHAPES[1:4]), compiled=True),
]  # fmt: skip

OPS = [*VIEW_OPS, *JOIN_OPS, *INDEX_OPS, *MADE]
