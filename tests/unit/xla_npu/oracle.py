"""Runs StableHLO on our graphs and on jaxlib's reference interpreter, which is neither ours nor XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from npu_common.graph.executors import CompileOptions, executor
from npu_common.runtime import Stream, empty
from xla_npu import frontend
from xla_npu.lowering import Context, load_rules
from xla_npu.lowering.constants import from_text
from xla_npu.types import TensorType, element_named, tensor_type

Array = np.ndarray[Any, Any]


def program(body: str, types: Sequence[str], results: Sequence[str]) -> str:
    """A module whose main takes %a0, %a1, ... of `types` and has `body`, which ends in a return."""
    arguments = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(types))
    return f"module @t {{ func.func @main({arguments}) -> ({', '.join(results)}) {{\n{body}\n}} }}"


def run_npu(text: str | bytes, inputs: Sequence[Array], fuse: bool = False) -> list[Array]:
    """The program lowered and run by the executor ge, without the plugin."""
    load_rules()
    module = frontend.parse(text.encode() if isinstance(text, str) else text)
    frontend.simplify(module)
    table = frontend.functions(module)
    main = table["main"]
    block = main.regions[0].blocks[0]
    context = Context("t", table)
    arguments, types = [], [tensor_type(a.type) for a in block.arguments]
    for index, type_ in enumerate(types):
        arguments.append(context.builder.input(f"a{index}", type_.dtype, type_.shape))
    for value in context.lower_block(block, arguments):
        context.builder.output(value)
    outputs = [tensor_type(t) for t in main.type.results]
    compiled = executor("ge").compile(context.builder.graph, CompileOptions(fuse=fuse))
    stream = Stream(device=0)
    given = [_as_graph(array, type_) for array, type_ in zip(inputs, types, strict=True)]
    buffers = [empty(type_.shape, type_.dtype, stream=stream) for type_ in outputs]
    compiled.run(given, buffers, stream)
    stream.synchronize()
    return [b.numpy().view(t.element.numpy).reshape(t.shape) for b, t in zip(buffers, outputs, strict=True)]


def run_reference(text: str, inputs: Sequence[Array]) -> list[Array]:
    """The program on StableHLO's reference interpreter (complex results leave it as two parts: jaxlib cannot read
    them)."""
    context = make_ir_context()
    with context:
        types = [tensor_type(t) for t in _main(ir.Module.parse(text)).type.results]
        module = ir.Module.parse(_closed(text, inputs))
        raw = iter(stablehlo.eval_module(module, []))
        return [_result(raw, type_) for type_ in types]


def _main(module: Any) -> Any:
    return frontend.functions(module)["main"]


def _closed(text: str, inputs: Sequence[Array]) -> str:
    """The program called by a main without arguments, which has the inputs as constants."""
    main = _main(ir.Module.parse(text))
    given = [str(t) for t in main.type.inputs]
    returned = [str(t) for t in main.type.results]
    lines = [
        f"%i{n} = stablehlo.constant {_literal(a, t)}"
        for n, (a, t) in enumerate(zip(inputs, given, strict=True))
    ]
    names = ", ".join(f"%i{n}" for n in range(len(given)))
    lines.append(
        f"%r:{len(returned)} = func.call @inner({names}) : ({', '.join(given)}) -> ({', '.join(returned)})"
    )
    values, types = [], []
    for n, type_ in enumerate(returned):
        if "complex" not in type_:
            values.append(f"%r#{n}")
            types.append(type_)
            continue
        part = type_.replace("complex<f32>", "f32").replace("complex<f64>", "f64")
        for name in ("real", "imag"):
            lines.append(f"%{name}{n} = stablehlo.{name} %r#{n} : ({type_}) -> {part}")
            values.append(f"%{name}{n}")
            types.append(part)
    lines.append(f"func.return {', '.join(values)} : {', '.join(types)}")
    outer = f"func.func @main() -> ({', '.join(types)}) {{\n" + "\n".join(lines) + "\n}\n"
    inner = text.replace("@main(", "@inner(").replace("func.func public @inner", "func.func @inner")
    at = inner.index("func.func")
    return inner[:at] + outer + inner[at:]


def _literal(array: Array, type_: str) -> str:
    element = tensor_type(ir.Type.parse(type_)).element
    array = np.asarray(array, element.numpy, order="C")
    if array.size == 0:
        return f"dense<> : {type_}"
    if element.stablehlo in ("i1", "i4", "ui4", "i2", "ui2"):
        numbers = [
            str(int(v)) if element.stablehlo != "i1" else str(bool(v)).lower() for v in array.reshape(-1)
        ]
        if array.ndim == 0:
            return f"dense<{numbers[0]}> : {type_}"
        return f"dense<{_nested(numbers, list(array.shape))}> : {type_}"
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {type_}'


def _nested(numbers: list[str], shape: list[int]) -> str:
    if not shape:
        return numbers[0]
    step = len(numbers) // shape[0]
    parts = [_nested(numbers[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(parts)}]"


def _result(raw: Any, type_: TensorType) -> Array:
    if type_.element.numpy.kind != "c":
        return _array(next(raw), type_)
    part = TensorType(element_named("f32" if type_.element.numpy.itemsize == 8 else "f64"), type_.shape)
    real, imaginary = _array(next(raw), part), _array(next(raw), part)
    whole = np.empty(type_.shape, type_.element.numpy)
    whole.real, whole.imag = real, imaginary
    return whole


def _array(attribute: Any, type_: TensorType) -> Array:
    if type_.size == 0:
        return np.zeros(type_.shape, type_.element.numpy)
    return from_text(str(attribute), type_)


def _as_graph(array: Array, type_: TensorType) -> Array:
    array = np.ascontiguousarray(np.asarray(array, type_.element.numpy)).reshape(type_.shape)
    return array.view(type_.dtype) if type_.element.is_storage else array


def check(
    text: str,
    inputs: Sequence[Array],
    rtol: float = 0.0,
    atol: float = 0.0,
    expected: Sequence[Array] | None = None,
) -> None:
    """Our results equal the reference's (or `expected`), NaN equal to NaN; exactly unless a tolerance is given."""
    wanted = run_reference(text, inputs) if expected is None else expected
    for ours, theirs in zip(run_npu(text, inputs), wanted, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        exact = rtol == atol == 0.0 or ours.dtype.kind not in "fcV"
        wide = np.complex128 if ours.dtype.kind == "c" else np.float64
        if exact:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours.astype(wide), theirs.astype(wide), rtol=rtol, atol=atol)
