"""Programs written by hand, loaded and run through the C API: no JAX, no compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from pypjrt._abi import pjrt_0_114 as abi

from npu_common import _cann
from npu_common.graph import Builder, to_model
from npu_common.runtime import soc_name, version
from tests.conformance.pjrt.plugin import PjrtError, call, table
from xla_npu import plugin, program
from xla_npu.types import by_pjrt

__all__ = ["PjrtError", "Program", "buffer", "client", "device", "host_calls", "load", "model", "read", "run"]

PRED, S32, F32 = 1, 4, 11
INTERNAL = 13


def Program(name: str = "test") -> Any:
    """An empty Program for this SoC and CANN."""
    return program.messages()["Program"](
        format=1, name=name, num_replicas=1, num_partitions=1, soc=soc_name(), cann_version=version()
    )


def model(build: Callable[[Builder], None], name: str = "model") -> bytes:
    """An offline model of the graph that `build` makes."""
    table()
    builder = Builder(name)
    build(builder)
    return bytes(_cann.build_model(to_model(builder.graph), name, {}, None))


def add_model() -> bytes:
    """x + y of two f32[4]."""

    def build(g: Builder) -> None:
        x, y = g.input("x", "float32", (4,)), g.input("y", "float32", (4,))
        g.output(g.add("Add", x, y))

    return model(build)


def add_program() -> Any:
    """x + y of two f32[4], as one RunModel."""
    made = Program()
    vector(made.parameters)
    vector(made.parameters)
    vector(made.results)
    for _ in range(3):
        vector(made.body.slots)
    made.body.inputs.extend([0, 1])
    made.body.outputs.append(2)
    step = made.body.steps.add()
    step.run.inputs.extend([0, 1])
    step.run.outputs.append(2)
    made.models.append(add_model())
    return made


def vector(tensors: Any) -> None:
    tensors.add(type=F32, dims=[4])


@cache
def client() -> int:
    """A client of our own, kept to the end of the process."""
    return int(call("PJRT_Client_Create").client)


def device(number: int = 0) -> int:
    found = call("PJRT_Client_LookupAddressableDevice", client=client(), local_hardware_id=number)
    return int(found.addressable_device)


def load(serialised: bytes) -> int:
    """The loaded executable. Raises PjrtError."""
    text = ctypes.create_string_buffer(serialised, len(serialised))
    made = call(
        "PJRT_Executable_DeserializeAndLoad",
        client=client(),
        serialized_executable=ctypes.addressof(text),
        serialized_executable_size=len(serialised),
    )
    return int(made.loaded_executable)


def buffer(array: np.ndarray[Any, Any], type_: int = F32) -> int:
    array = np.asarray(array, order="C")
    dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    made = call(
        "PJRT_Client_BufferFromHostBuffer",
        client=client(),
        data=array.ctypes.data,
        type=type_,
        dims=ctypes.addressof(dims),
        num_dims=array.ndim,
        device=device(),
    )
    call("PJRT_Event_Destroy", event=made.done_with_host_buffer)
    return int(made.buffer)


def read(handle: int) -> np.ndarray[Any, Any]:
    """The contents of a buffer. Raises PjrtError: what its event says."""
    type_ = by_pjrt(call("PJRT_Buffer_ElementType", buffer=handle).type)
    shape = call("PJRT_Buffer_Dimensions", buffer=handle)
    dims = ctypes.cast(shape.dims, ctypes.POINTER(ctypes.c_int64))[: shape.num_dims]
    array = np.empty(tuple(dims), type_.numpy)
    event = call("PJRT_Buffer_ToHostBuffer", src=handle, dst=array.ctypes.data, dst_size=array.nbytes).event
    try:
        call("PJRT_Event_Await", event=event)
    finally:
        call("PJRT_Event_Destroy", event=event)
    return array


def run(executable: int, arguments: Sequence[int], results: int) -> list[int]:
    """One run on the executable's device; the handles of its results. Raises PjrtError."""
    options = abi.PJRT_ExecuteOptions()
    options.struct_size = ctypes.sizeof(options)
    given = (ctypes.c_void_p * max(len(arguments), 1))(*arguments)
    made = (ctypes.c_void_p * max(results, 1))()
    given_lists, made_lists = (ctypes.c_void_p * 1)(), (ctypes.c_void_p * 1)()
    given_lists[0], made_lists[0] = ctypes.addressof(given), ctypes.addressof(made)
    call(
        "PJRT_LoadedExecutable_Execute",
        executable=executable,
        options=ctypes.addressof(options),
        argument_lists=ctypes.addressof(given_lists),
        num_devices=1,
        num_args=len(arguments),
        output_lists=ctypes.addressof(made_lists),
    )
    return [int(handle) for handle in made[:results] if handle]


HostFunction = Callable[[str, list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]], None]


@contextmanager
def host_calls(function: HostFunction) -> Iterator[None]:
    """Programs call this function on the host meanwhile; an exception is the call's error."""
    table()
    library = ctypes.CDLL(str(plugin.library_file()))
    library.npu_pjrt_reply.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)

    def called(target: bytes, _a: int, _n: int, n: int, ins: Any, m: int, outs: Any, reply: int) -> None:
        try:
            function(
                target.decode(),
                [plugin._array(ins[i]) for i in range(n)],
                [plugin._array(outs[i]) for i in range(m)],
            )
            library.npu_pjrt_reply(reply, 0, b"", 0)
        except Exception as error:
            text = str(error).encode()
            library.npu_pjrt_reply(reply, INTERNAL, text, len(text))

    callback = plugin._HostCall(called)
    library.npu_pjrt_set_host_call(callback)
    try:
        yield
    finally:
        registered = plugin._registered
        library.npu_pjrt_set_host_call(registered._callbacks[1] if registered else None)
