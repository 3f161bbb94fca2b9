"""Operators that move elements: views, slices, joins, padding."""

from __future__ import annotations

import numpy as np

from tests.conformance.ge_ops.case import ANY, NUMBERS, Case, Op, X


def op(type, types, *rows, loose=1.0, compiled=False):
    """Rows: (inputs, reference) or (inputs, reference, attributes) or (.., outputs)."""
    return Op(type, types, [Case(*row) for row in rows], loose, compiled)


def parts(sizes, axis):
    return lambda x: [each.copy() for each in np.split(x, np.cumsum(sizes)[:-1], axis)]


PADS = [
    ((2, 3), [[1, 2], [0, 3]]),
    ((4,), [[0, 0]]),
    ((2, 0), [[1, 0], [1, 1]]),
    ((1, 2, 3), [[0, 1], [2, 0], [1, 1]]),
]
JOINS = [([(2, 3), (2, 1), (2, 4)], 1), ([(2, 3), (2, 0)], -1), ([(3,), (1,)], 0), ([(1, 2), (4, 2)], -2)]
SPLITS = [((2, 6), 1, 3), ((4,), 0, 2), ((3, 1, 2), -1, 2), ((2, 0), 1, 2)]
UNEVEN = [((2, 6), 1, [1, 2, 3]), ((5,), 0, [5]), ((3, 4), -1, [0, 4])]
TURNS = [((2, 3, 4), [2, 0, 1]), ((2, 3), [1, 0]), ((), []), ((0, 3), [1, 0]), ((1, 5, 1), [2, 1, 0])]


def pads(type, with_value=False, **attributes):
    rows = []
    for shape, pad in PADS:
        value = [lambda t: np.array(1, t)] if with_value else []
        rows.append(
            (
                [X(shape), np.array(pad), *value],
                lambda x, pad=pad: np.pad(x, pad, constant_values=1 if with_value else 0),
                attributes,
            )
        )
    return op(type, "f4 f2 b2 i4 i8", *rows)  # fmt: skip


def joins(type, where, types=ANY):
    rows = []
    for shapes, axis in JOINS:
        xs = [X(s) for s in shapes]
        inputs = {
            "last": [xs, np.array(axis, np.int64)],
            "first": [np.array(axis, np.int64), xs],
            "attribute": [xs],
        }[where]
        attributes = {"N": len(shapes)} | ({"concat_dim": axis} if where == "attribute" else {})
        rows.append((inputs, lambda a, axis=axis: np.concatenate(a, axis), attributes))
    return op(type, types, *rows)


VIEW_OPS = [
    op(
        "Reshape",
        ANY,
        *(
            ([X(s), np.array(to, np.int64)], lambda x, to=to: x.reshape(to))
            for s, to in (((2, 3), [3, 2]), ((2, 3), [-1]), ((1,), []), ((), [1, 1]), ((0, 4), [2, 0]))
        ),
    ),
    op(
        "Squeeze",
        ANY,
        *(
            ([X((1, 2, 1, 3))], lambda x, a=a: x.squeeze(tuple(a) or None), {"axis": a})
            for a in ([], [0], [-2], [0, 2])
        ),
    ),
    op(
        "Unsqueeze",
        ANY,
        *(
            ([X((2, 3))], lambda x, a=a: np.expand_dims(x, tuple(a)), {"axes": a})
            for a in ([0], [-1], [1, 3])
        ),
    ),
    op(
        "ExpandDims",
        ANY,
        *(([X((2, 3)), np.array([a])], lambda x, a=a: np.expand_dims(x, a)) for a in (0, 1, -1)),
    ),
    op(
        "Flatten",
        ANY,
        ([X((2, 3, 4))], lambda x: x.reshape(2, 12)),
        ([X((2, 3, 4))], lambda x: x.reshape(6, 4), {"axis": 2}),
    ),
    op(
        "FlattenV2",
        ANY,
        ([X((2, 3, 4))], lambda x: x.reshape(2, 12)),
        ([X((2, 3, 4))], lambda x: x.reshape(6, 4), {"axis": 0, "end_axis": 1}),
    ),
    op("Transpose", ANY, *(([X(s), np.array(p, np.int64)], lambda x, p=p: x.transpose(p)) for s, p in TURNS)),
    op(
        "TransposeD",
        "f4 f2 i4 i8",
        *(([X(s)], lambda x, p=p: x.transpose(p), {"perm": p}) for s, p in TURNS if p),
    ),
    op(
        "BroadcastTo",
        ANY,
        *(
            ([X(s), np.array(to, np.int64)], lambda x, to=to: np.broadcast_to(x, to))
            for s, to in (
                ((3,), [2, 3]),
                ((), [2]),
                ((1, 4), [3, 4]),
                ((2, 1, 3), [2, 5, 3]),
                ((1,), [0]),
                ((2, 3), [2, 3]),
            )
        ),
    ),
    op(
        "Tile",
        ANY,
        *(
            ([X(s), np.array(m, np.int64)], lambda x, m=m: np.tile(x, m))
            for s, m in (((2, 3), [1, 2]), ((4,), [3]), ((1, 1), [2, 2]), ((2,), [0]))
        ),
    ),
    op(
        "ReverseV2",
        ANY,
        *(
            ([X(s), np.array(a, np.int64)], lambda x, a=a: np.flip(x, a))
            for s, a in (((2, 3), [1]), ((2, 3, 4), [0, -1]), ((1,), [0]), ((0, 2), [1]))
        ),
    ),
    op(
        "Roll",
        "f4 f2 b2 i4 i8",
        *(
            ([X(s)], lambda x, n=n, d=d: np.roll(x, n, d), {"shifts": list(n), "dims": list(d)})
            for s, n, d in (((5,), (2,), (0,)), ((2, 3), (1, -1), (0, 1)), ((4, 1), (7,), (-2,)))
        ),
    ),
    op(
        "Triu",
        "f4 f2 b2 i4 i8",
        *(
            ([X(s)], lambda x, k=k: np.triu(x, k), {"diagonal": k})
            for s in ((3, 4), (2, 4, 3), (1, 1))
            for k in (0, 1, -1)
        ),
    ),
    op(
        "Tril",
        "f4 f2 b2 i4 i8",
        *(
            ([X(s)], lambda x, k=k: np.tril(x, k), {"diagonal": k})
            for s in ((3, 4), (2, 4, 3), (1, 1))
            for k in (0, 1, -1)
        ),
    ),
]

JOIN_OPS = [
    joins("ConcatV2", "last"),
    joins("Concat", "first"),
    joins("ConcatD", "attribute"),
    joins("ConcatV2D", "attribute", NUMBERS),
    op(
        "Pack",
        ANY,
        *(
            ([[X(s), X(s)]], lambda a, k=k: np.stack(a, k), {"axis": k, "N": 2})
            for s, k in (((2, 3), 0), ((2, 3), -1), ((2, 3), 1), ((), 0), ((0,), 0))
        ),
    ),
    op(
        "Split",
        ANY,
        *(
            ([np.array(k, np.int64), X(s)], lambda x, k=k, n=n: np.split(x, n, k), {"num_split": n}, n)
            for s, k, n in SPLITS
        ),
    ),
    op(
        "SplitD",
        ANY,
        *(
            ([X(s)], lambda x, k=k, n=n: np.split(x, n, k), {"split_dim": k, "num_split": n}, n)
            for s, k, n in SPLITS
        ),
    ),
    op(
        "SplitV",
        ANY,
        *(
            ([X(s), np.array(z, np.int64), np.array(k, np.int64)], parts(z, k), {"num_split": len(z)}, len(z))
            for s, k, z in UNEVEN
        ),
    ),
    op(
        "SplitVD",
        "f4 f2 i4 i8 b1",
        *(
            ([X(s)], parts(z, k), {"size_splits": z, "split_dim": k, "num_split": len(z)}, len(z))
            for s, k, z in UNEVEN
        ),
    ),
    op(
        "Slice",
        NUMBERS,
        ([X((4, 6)), [1, 2], [2, 3]], lambda x: x[1:3, 2:5]),
        ([X((5,)), [0], [5]], lambda x: x),
        ([X((5,)), [2], [0]], lambda x: x[2:2]),
        ([X((3, 4)), [1, 0], [-1, 2]], lambda x: x[1:, :2]),
    ),
    op(
        "StridedSlice",
        ANY,
        ([X((4, 6)), [0, 1], [4, 6], [2, 2]], lambda x: x[0:4:2, 1:6:2]),
        ([X((5,)), [-3], [5], [1]], lambda x: x[-3:5]),
        ([X((4, 6)), [1, 0], [2, 6], [1, 1]], lambda x: x[1, 0:6], {"shrink_axis_mask": 1}),
        ([X((4, 6)), [1], [0], [1]], lambda x: x[1:], {"end_mask": 1}),
        ([X((4,)), [2], [2], [1]], lambda x: x[2:2]),
    ),
    op(
        "StridedSliceV2",
        ANY,
        ([X((4, 6)), [0, 1], [4, 6], [0, 1], [2, 2]], lambda x: x[0:4:2, 1:6:2]),
        ([X((4, 6)), [1], [5], [1], [1]], lambda x: x[:, 1:5]),
        ([X((4, 6)), [1], [-1], [-1], [3]], lambda x: x[:, 1:-1:3]),
    ),
    pads("Pad"),
    pads("PadV2", True),
    pads("PadV3", True),
    pads("PadV3"),
]

OPS = [*VIEW_OPS, *JOIN_OPS]
