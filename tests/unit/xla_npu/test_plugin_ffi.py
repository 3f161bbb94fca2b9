"""Custom calls of the user's: handlers written with jaxlib's headers, on device memory and the device's stream."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from pypjrt._abi import pjrt_0_114 as abi

from npu_common.graph.proto import make_messages
from tests.conformance.pjrt.plugin import PjrtError, table
from tests.unit.xla_npu.pjrt_program import F32, S32, Program, buffer, load, read, run, vector

FFI_EXTENSION = 5
OUT_OF_RANGE, UNIMPLEMENTED = 11, 12
ATTRIBUTES = make_messages(
    "npu.ffi",
    {
        "FfiAttributes": [("attributes", 1, "FfiAttribute", "repeated")],
        "FfiAttribute": [
            ("name", 1, "string", ""),
            ("scalar", 2, "Values", ""),
            ("array", 3, "Values", ""),
            ("string", 4, "string", "oneof:text"),
        ],
        "Values": [("type", 1, "int32", ""), ("bytes", 2, "bytes", "")],
    },
    {},
)
X = np.arange(4, dtype=np.float32)


def register(target: str, handler: int, platform: str = "npu") -> None:
    """Through the extension, as jaxlib does it. Raises PjrtError."""
    address = table().extension_start
    while address:
        base = abi.PJRT_Extension_Base.from_address(address)
        if base.type == FFI_EXTENSION:
            break
        address = base.next
    extension = abi.PJRT_FFI_Extension.from_address(address)
    names = [ctypes.create_string_buffer(text.encode()) for text in (target, platform)]
    made = abi.PJRT_FFI_Register_Handler_Args(struct_size=ctypes.sizeof(abi.PJRT_FFI_Register_Handler_Args))
    made.target_name, made.target_name_size = ctypes.addressof(names[0]), len(target)
    made.platform_name, made.platform_name_size = ctypes.addressof(names[1]), len(platform)
    made.handler = handler
    error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(extension.register_handler)(
        ctypes.addressof(made)
    )
    if error:
        from tests.conformance.pjrt.plugin import _taken

        raise _taken(error)


@pytest.fixture(scope="module")
def handler(ffi_library):
    address = ctypes.cast(ffi_library.CopyHandler, ctypes.c_void_p).value
    register("copy_of_test", address)
    return address


def program(target: str, mode: str):
    made = Program()
    vector(made.parameters)
    vector(made.results)
    vector(made.body.slots)
    vector(made.body.slots)
    made.body.inputs.append(0)
    made.body.outputs.append(1)
    call = made.body.steps.add(location="user.py:3").host
    call.target, call.api = target, "ffi"
    call.inputs.append(0)
    call.outputs.append(1)
    attributes = ATTRIBUTES["FfiAttributes"]()
    attributes.attributes.add(name="mode", string=mode)
    limit = attributes.attributes.add(name="limit").scalar
    limit.type, limit.bytes = S32, np.int32(7).tobytes()
    weights = attributes.attributes.add(name="a_weights").array
    weights.type, weights.bytes = F32, np.array([1, 2.5], np.float32).tobytes()
    call.attributes = attributes.SerializeToString()
    return load(made.SerializeToString())


def test_a_handler_works_on_the_devices_stream(handler):
    (result,) = run(program("copy_of_test", "copy"), [buffer(X)], 1)
    np.testing.assert_array_equal(read(result), X)


def test_errors_of_a_handler_arrive(handler):
    (result,) = run(program("copy_of_test", "fail"), [buffer(X)], 1)
    with pytest.raises(PjrtError, match=r"told to fail \[user.py:3\]") as error:
        read(result)
    assert error.value.code == OUT_OF_RANGE


def test_a_handler_that_nobody_registered():
    (result,) = run(program("nobody_knows", "copy"), [buffer(X)], 1)
    with pytest.raises(PjrtError, match="nobody registered the custom call nobody_knows for npu") as error:
        read(result)
    assert error.value.code == UNIMPLEMENTED


def test_registering(handler):
    register("copy_of_test", handler)  # again is no error
    with pytest.raises(PjrtError, match="for npu, not for CUDA"):
        register("copy_of_test", handler, "CUDA")
    with pytest.raises(PjrtError, match="is null"):
        register("another", 0)
