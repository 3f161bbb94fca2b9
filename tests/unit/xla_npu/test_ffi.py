"""jax.ffi on npu: handlers that a user writes with jaxlib's headers, called from programs."""

from __future__ import annotations

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.xla_npu.jax_npu import npu

X = np.arange(4, dtype=np.float32)
COPY = {"limit": np.int32(7), "a_weights": np.array([1, 2.5], np.float32)}
HALF = {"options": {"name": "half", "size": np.int64(2)}}


@pytest.fixture(scope="module", autouse=True)
def handlers(ffi_library: ctypes.CDLL) -> ctypes.CDLL:
    jax.ffi.register_ffi_target("test_copy", jax.ffi.pycapsule(ffi_library.CopyHandler), platform="npu")
    execute = {"execute": jax.ffi.pycapsule(ffi_library.RepeatHandler)}
    jax.ffi.register_ffi_target("test_repeat", execute, platform="npu")
    return ffi_library


def copy(x: jax.Array, mode: str = "copy") -> jax.Array:
    call = jax.ffi.ffi_call("test_copy", jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="sequential")
    return call(x, mode=mode, **COPY)


def repeat(x: jax.Array) -> jax.Array:
    made = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("test_repeat", made, input_output_aliases={0: 0})(x, **HALF)


def run(function, *arguments):
    with jax.default_device(npu()):
        return jax.jit(function)(*arguments)


def test_a_call_between_other_operations() -> None:
    np.testing.assert_array_equal(run(lambda x: copy(x * 2) + 1, X), X * 2 + 1)


def test_a_result_in_the_memory_of_an_argument_leaves_the_argument_alone() -> None:
    given, made = run(lambda x: (x + 1, repeat(x + 1)), X)
    np.testing.assert_array_equal(given, [1, 2, 3, 4])
    np.testing.assert_array_equal(made, [1, 2, 1, 2])


def test_calls_in_loops_and_under_vmap() -> None:
    np.testing.assert_array_equal(
        run(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: copy(y) + 1, x), X), X + 3
    )
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(run(jax.vmap(copy), rows), rows)


def test_the_error_of_a_handler_is_an_exception_with_its_place() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"told to fail.*test_ffi.py"):
        run(lambda x: copy(x, "fail"), X).block_until_ready()


def test_what_npu_does_not_have_is_named(handlers: ctypes.CDLL) -> None:
    capsule = jax.ffi.pycapsule(handlers.CopyHandler)
    with pytest.raises(NotImplementedError, match="'untyped' has the untyped interface"):
        jax.ffi.register_ffi_target("untyped", capsule, platform="npu", api_version=0)
    with pytest.raises(NotImplementedError, match=r"'staged' has the stages \['prepare'"):
        jax.ffi.register_ffi_target("staged", {"prepare": capsule, "execute": capsule}, platform="npu")
    with pytest.raises(RuntimeError, match="another FFI handler is registered for test_copy"):
        jax.ffi.register_ffi_target("test_copy", jax.ffi.pycapsule(handlers.RepeatHandler), platform="npu")
    columns = jax.ffi.ffi_call("test_copy", jax.ShapeDtypeStruct((2, 2), jnp.float32), output_layouts=(1, 0))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"'test_copy' wants the layout \[0, 1\]"):
        run(lambda x: columns(x, mode="copy", **COPY), np.ones((2, 2), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"attribute mode = \[1, 2\]"):
        run(lambda x: copy(x, (1, 2)), X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="attribute mode, which jaxlib cannot read"):
        run(lambda x: copy(x, np.ones(2, np.complex64)), X)


def test_types_for_handlers_are_numbered() -> None:
    class TypeId(ctypes.Structure):
        _fields_ = (("number", ctypes.c_int64),)

    made = TypeId(0)
    jax.ffi.register_ffi_type(
        "test_type", {"type_id": jax.ffi.pycapsule(ctypes.pointer(made))}, platform="npu"
    )
    assert made.number > 0
