"""The single-operator interface by ctypes, on npu tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch
import torch_npu  # noqa: F401

NUMBERS = {
    torch.float32: 0,
    torch.float16: 1,
    torch.int32: 3,
    torch.int64: 9,
    torch.bool: 12,
    torch.bfloat16: 27,
    torch.int8: 2,
    torch.uint8: 4,
    torch.int16: 6,
    torch.uint64: 10,
    torch.float64: 11,
    torch.complex64: 16,
}
UNDEFINED, ND, DEVICE, HOST = -1, 2, 0, 1


@dataclass
class Operand:
    """A descriptor and a buffer, destroyed with the call."""

    tensor: torch.Tensor | None
    placement: int = DEVICE
    constant: bool = False
    dims: list[int] | None = None
    format: int = ND


@dataclass
class Door:
    """aclopCompileAndExecute(V2) as a Python function."""

    acl: ctypes.CDLL
    compiler: ctypes.CDLL
    shapes: list[list[int]] = field(default_factory=list)  # of the outputs, after a call

    def message(self) -> str:
        return (self.acl.aclGetRecentErrMsg() or b"").decode()

    def __call__(self, name, inputs, outputs, attributes=(), version=1):
        """Returns the error code; `attributes` are (setter's suffix, name, value...)."""
        sides = [[self._describe(x) for x in group] for group in (inputs, outputs)]
        pointers = [
            (ctypes.c_void_p * max(len(side), 1))(*(pair[part] for pair in side))
            for side in sides
            for part in (0, 1)
        ]
        attr = ctypes.c_void_p(self.acl.aclopCreateAttr())
        for kind, key, *value in attributes:
            assert getattr(self.acl, f"aclopSetAttr{kind}")(attr, key.encode(), *value) == 0
        stream = torch.npu.current_stream()
        if not torch.npu.is_current_stream_capturing():
            stream.synchronize()
        run = getattr(self.compiler, "aclopCompileAndExecute" + ("V2" if version == 2 else ""))
        code = run(
            *(name.encode(), len(inputs), pointers[0], pointers[1], len(outputs), pointers[2], pointers[3]),
            *(attr, 0, 0, None, ctypes.c_void_p(stream.npu_stream)),
        )
        self.shapes = []
        for desc, _ in sides[1]:
            count = self.acl.aclGetTensorDescNumDims(ctypes.c_void_p(desc))
            self.shapes.append([self.acl.aclGetTensorDescDim(ctypes.c_void_p(desc), i) for i in range(count)])
        for desc, buffer in [pair for side in sides for pair in side]:
            self.acl.aclDestroyTensorDesc(ctypes.c_void_p(desc))
            self.acl.aclDestroyDataBuffer(ctypes.c_void_p(buffer))
        self.acl.aclopDestroyAttr(attr)
        return code

    def _describe(self, given):
        operand = given if isinstance(given, Operand) else Operand(given)
        tensor = operand.tensor
        if tensor is None:
            return self.acl.aclCreateTensorDesc(UNDEFINED, 0, None, -1), self.acl.aclCreateDataBuffer(None, 0)
        dims = list(tensor.shape) if operand.dims is None else operand.dims
        desc = self.acl.aclCreateTensorDesc(
            NUMBERS[tensor.dtype], len(dims), (ctypes.c_int64 * max(len(dims), 1))(*dims), operand.format
        )
        handle = ctypes.c_void_p(desc)
        assert self.acl.aclSetTensorPlaceMent(handle, operand.placement) == 0
        size = tensor.numel() * tensor.element_size()
        address = ctypes.c_void_p(tensor.data_ptr())
        if operand.constant:
            assert self.acl.aclSetTensorConst(handle, address, ctypes.c_size_t(size)) == 0
            return desc, self.acl.aclCreateDataBuffer(None, 0)
        return desc, self.acl.aclCreateDataBuffer(address, ctypes.c_size_t(size))


@pytest.fixture
def door() -> Door:
    torch.npu.current_stream()
    acl, compiler = ctypes.CDLL("libascendcl.so"), ctypes.CDLL("libacl_op_compiler.so")
    for name in ("aclCreateTensorDesc", "aclCreateDataBuffer", "aclopCreateAttr"):
        getattr(acl, name).restype = ctypes.c_void_p
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    acl.aclGetTensorDescNumDims.restype = ctypes.c_size_t
    acl.aclGetTensorDescDim.restype = ctypes.c_int64
    acl.aclGetTensorDescDim.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    acl.aclopSetAttrFloat.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float]
    return Door(acl, compiler)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def device_of_its_own() -> Iterator[None]:
    """An operator that failed on the device fails every later one: the next test starts with a good device."""
    yield
    try:
        torch.npu.synchronize()
    except RuntimeError:
        acl = ctypes.CDLL("libascendcl.so")
        assert acl.aclrtResetDevice(0) == 0
        assert acl.aclrtSetDevice(0) == 0
