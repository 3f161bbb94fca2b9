"""Every GE operator that aclnn, ge and afir have, on all three, against NumPy's float64 and against each other.

A graph holds all cases of an operator in one data type. A second operator that changes nothing stands behind each
result, so that AutoFuse (which leaves single operators alone) has a chain to fuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npu_common import runtime
from npu_common.graph import Builder, Value
from npu_common.graph.executors import CompileOptions, executor
from npu_common.graph.executors.aclnn_table import LINES, VIEWS
from tests.conformance.ge_ops import OPS
from tests.conformance.ge_ops.case import TYPES, Case, Op, X, exact

EXECUTORS = ("aclnn", "ge", "afir")
# A few roundings of the result's type.
TOLERANCE = {"float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
TESTS = [
    pytest.param(op, type, id=f"{op.type}-{number}-{type}" if number else f"{op.type}-{type}")
    for number, op in ((sum(o.type == op.type for o in OPS[:i]), op) for i, op in enumerate(OPS))
    for type in op.types.split()
]


def test_the_table_has_nearly_every_operator() -> None:
    there = {op.type for op in OPS if not op.compiled}
    assert there <= set(LINES) | VIEWS
    assert len(there) >= 150


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(("op", "type"), TESTS)
def test_operator(op: Op, type: str) -> None:
    b = Builder(op.type)
    data: list[np.ndarray] = []
    wanted: list[tuple[Case, Any]] = []
    for case in op.cases:
        given = case.data(type)
        results = add(b, op, case, type, given, data)
        with np.errstate(all="ignore"):
            expected = case.reference(*exact(given))
        expected = expected if isinstance(expected, list) else [expected]
        assert len(expected) == len(results), f"{op.type} has {len(results)} outputs"
        for result, one in zip(results, expected, strict=True):
            if one is not None:
                b.output(echo(b, result))
                wanted.append((case, np.asarray(one)))
    executors = EXECUTORS[1:] if op.compiled else EXECUTORS
    found = {name: run(name, b, data) for name in executors}
    for position, (case, one) in enumerate(wanted):
        for name in executors:
            compare(found[name][position], one, op.loose, f"{name}: {op.type} of {describe(case)}")
        for name in executors[1:]:
            what = f"{name} and {executors[0]}: {op.type} of {describe(case)}"
            agree(found[name][position], found[executors[0]][position], op.loose, what)


def add(b: Builder, op: Op, case: Case, type: str, given: list[Any], data: list[np.ndarray]) -> list[Value]:
    """Adds the node; its data goes behind that of the graph's other inputs."""

    def as_input(array: np.ndarray) -> Value:
        data.append(array)
        return b.input(f"x{len(data)}", array.dtype, array.shape)

    left = iter(given)
    inputs = []
    for item in case.inputs:
        if isinstance(item, X):
            inputs.append(as_input(next(left)))
        elif isinstance(item, list) and item and isinstance(item[0], X):
            inputs.append([as_input(each) for each in next(left)])
        else:
            inputs.append(item(TYPES[type]) if callable(item) else item)
    return b.add_many(op.type, *inputs, attributes=dict(case.attributes), outputs=case.outputs or None)


def echo(b: Builder, value: Value) -> Value:
    """The value through an operator that changes nothing, NaN included."""
    if value.dtype.kind == "b":
        return b.add("LogicalAnd", value, value)
    if value.dtype.name in ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "int8"):
        return b.add("Maximum", value, value)
    return value


def run(name: str, b: Builder, data: list[np.ndarray]) -> list[np.ndarray]:
    executable = executor(name).compile(b.graph, CompileOptions(fuse=False))
    outputs = [runtime.empty(list(v.shape), v.dtype) for v in executable.graph.outputs]
    inputs = [strided(each) if i % 2 else runtime.asarray(each) for i, each in enumerate(data)]
    executable.run(inputs, outputs, runtime.current_stream())
    return [each.numpy() for each in outputs]


def strided(values: np.ndarray) -> runtime.DeviceArray:
    """The values as a view that is not contiguous, where they have dimensions enough."""
    return (
        runtime.asarray(np.ascontiguousarray(values.T)).transpose()
        if values.ndim > 1
        else runtime.asarray(values)
    )


def compare(found: np.ndarray, expected: np.ndarray, loose: float, what: str) -> None:
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, NumPy has {expected.shape}"
    limit = TOLERANCE.get(found.dtype.name)
    if limit is None:
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    np.testing.assert_allclose(
        found.astype(np.float64), expected, rtol=limit * loose, atol=limit * loose, err_msg=what
    )


def agree(found: np.ndarray, other: np.ndarray, loose: float, what: str) -> None:
    compare(found, other.astype(np.float64) if other.dtype.name in TOLERANCE else other, loose, what)


def describe(case: Case) -> str:
    return f"{list(case.inputs)} {case.attributes or ''}"
