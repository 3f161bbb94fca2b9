"""aclopCompileAndExecute: what it accepts, what it copies at the call, and what it refuses in a sentence."""

import ctypes

import pytest
import torch

from .conftest import HOST, Operand


def npu(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype, device="npu")


def test_an_operator_runs_on_its_stream(door):
    x = torch.tensor([-1.0, 2.0, -3.0], device="npu")
    y = npu(3)
    assert door("Abs", [x], [y]) == 0
    assert y.cpu().tolist() == [1.0, 2.0, 3.0]


def test_an_unknown_operator_is_named(door):
    assert door("NoSuchOperator", [npu(2)], [npu(2)]) == 100024  # ACL_ERROR_OP_NOT_FOUND
    assert "GE operator NoSuchOperator is not implemented by the host emulator" in door.message()


@pytest.mark.parametrize(
    "operand", [{"placement": HOST}, {"constant": True}], ids=["host memory", "constant"]
)
def test_values_on_the_host_are_taken_at_the_call(door, operand):
    x = torch.arange(6.0, device="npu").view(2, 3)
    perm, y = torch.tensor([1, 0]), npu(3, 2)
    busy = torch.randn(700, 700, device="npu")
    for _ in range(3):
        busy = busy @ busy
    assert door("Transpose", [x, Operand(perm, **operand)], [y]) == 0
    perm.fill_(77)  # the caller's memory is its own again
    assert torch.equal(y.cpu(), torch.arange(6.0).view(2, 3).t())


def test_a_value_on_the_device_is_read_when_the_operator_runs(door):
    x, y = torch.arange(6.0, device="npu").view(2, 3), npu(3, 2)
    assert door("Transpose", [x, torch.tensor([1, 0], device="npu")], [y]) == 0
    assert torch.equal(y.cpu(), torch.arange(6.0).view(2, 3).t())


def test_a_captured_operator_reads_values_on_the_device_in_each_replay(door):
    x, y, perm = torch.arange(9.0, device="npu").view(3, 3), npu(3, 3), torch.tensor([1, 0], device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        assert door("Transpose", [x, perm], [y]) == 0
    graph.replay()
    assert torch.equal(y.cpu(), torch.arange(9.0).view(3, 3).t())
    perm.copy_(torch.tensor([0, 1]))
    graph.replay()
    assert torch.equal(y.cpu(), torch.arange(9.0).view(3, 3))


def test_a_descriptor_may_be_destroyed_while_the_operator_waits(door):
    x, y = torch.ones(1000, 1000, device="npu"), npu(1000, 1000)
    for _ in range(20):  # conftest's door destroys everything as soon as the call returns
        assert door("Neg", [x], [y]) == 0
    assert y.cpu().eq(-1).all()


def test_absent_optional_inputs_may_be_undefined_or_left_out(door):
    x, weight = torch.randn(1, 2, 5, 5, device="npu"), torch.randn(3, 2, 3, 3, device="npu")
    fours = [(ctypes.c_int64 * 4)(*values) for values in ([1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1])]
    attributes = [
        ("ListInt", name, 4, values)
        for name, values in zip(("strides", "pads", "dilations"), fours, strict=True)
    ]
    attributes += [("String", "data_format", b"NCHW"), ("Int", "groups", ctypes.c_int64(1))]
    expected = torch.nn.functional.conv2d(x.cpu(), weight.cpu(), padding=1)
    for inputs in ([x, weight], [x, weight, None]):
        y = npu(1, 3, 5, 5)
        assert door("Conv2D", inputs, [y], attributes) == 0
        torch.testing.assert_close(y.cpu(), expected)


def test_an_attribute_that_would_change_the_result_is_refused(door):
    x, weight = torch.randn(1, 2, 5, 5, device="npu"), torch.randn(3, 2, 3, 3, device="npu")
    ones = (ctypes.c_int64 * 4)(1, 1, 1, 1)
    attributes = [("ListInt", name, 4, ones) for name in ("strides", "pads", "dilations")]
    assert (
        door(
            "DepthwiseConv2D",
            [x, weight],
            [npu(1, 3, 5, 5)],
            [*attributes, ("String", "data_format", b"NHWC")],
        )
        != 0
    )
    assert (
        "DepthwiseConv2D: its attribute data_format is NHWC; the host emulator implements NCHW only"
        in door.message()
    )
    assert door("DepthwiseConv2D", [x, weight], [npu(1, 3, 5, 5)], attributes) != 0
    assert "data_format is not given" in door.message()
    assert door("Abs", [x], [x], [("Int", "mystery", ctypes.c_int64(1))]) != 0
    assert "its attribute mystery is not implemented" in door.message()


def test_hints_for_the_engine_are_no_attributes(door):
    x, y = torch.ones(2, device="npu"), npu(2)
    hints = [("Bool", "_performance_prior", 1), ("String", "_exclude_engines", b"AiCore")]
    assert door("Neg", [x], [y], hints) == 0
    assert y.cpu().tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("operand", "sentence"),
    [
        (Operand(torch.zeros(4), dims=[5]), "takes 20 bytes, its buffer has 16"),
        (Operand(torch.zeros(4), dims=[-1]), "unknown dimension"),
        (Operand(torch.zeros(4), format=29), "tiled format 29"),
    ],
)
def test_a_bad_operand_is_refused_with_its_place(door, operand, sentence):
    assert door("Abs", [operand], [npu(4)]) == 100000  # ACL_ERROR_INVALID_PARAM
    message = door.message()
    assert "GE operator Abs: input 0" in message and sentence in message


def test_too_many_inputs_are_refused(door):
    assert door("Abs", [npu(2), npu(2)], [npu(2)]) != 0
    assert "takes 1 inputs, was given 2" in door.message()


def test_v2_waits_for_the_operator(door):
    x, y = torch.randn(500, 500, device="npu"), npu(500, 500)
    assert door("BatchMatMul", [x, x], [y], version=2) == 0
    assert door.shapes == [[500, 500]]
    torch.testing.assert_close(y.cpu(), x.cpu() @ x.cpu(), rtol=1e-4, atol=1e-3)


def test_compile_options_are_read_back(door):
    options = door.compiler
    options.aclGetCompileoptSize.restype = ctypes.c_size_t
    jit_compile, length = 10, ctypes.c_size_t(options.aclGetCompileoptSize(10))
    text = ctypes.create_string_buffer(length.value)
    assert options.aclGetCompileopt(jit_compile, text, length) == 0
    assert text.value in (b"enable", b"disable")
    assert options.aclGetCompileopt(jit_compile, text, ctypes.c_size_t(2)) != 0
    assert "the buffer has 2" in door.message()
    assert options.aclSetCompileopt(999, b"x") != 0
    assert "no compile option 999" in door.message()


def test_what_needs_the_compiler_says_so(door):
    assert door.compiler.aclopCompile(b"Abs", 0, None, 0, None, None, 0, 0, None) != 0
    assert "aclopCompile is not implemented" in door.message()


def test_descriptors_answer_what_they_were_told(door):
    acl = door.acl
    acl.aclGetTensorDescSize.restype = ctypes.c_size_t
    acl.aclGetTensorDescName.restype = ctypes.c_char_p
    desc = ctypes.c_void_p(acl.aclCreateTensorDesc(1, 2, (ctypes.c_int64 * 2)(3, 4), 2))
    assert acl.aclGetTensorDescType(desc) == 1 and acl.aclGetTensorDescFormat(desc) == 2
    assert acl.aclGetTensorDescSize(desc) == 24
    acl.aclSetTensorDescName(desc, b"x")
    assert acl.aclGetTensorDescName(desc) == b"x"
    bounds = (ctypes.c_int64 * 4)(1, 3, 4, 4)
    assert acl.aclSetTensorShapeRange(desc, ctypes.c_size_t(2), bounds) == 0
    found = (ctypes.c_int64 * 2)()
    assert acl.aclGetTensorDescDimRange(desc, ctypes.c_size_t(0), ctypes.c_size_t(2), found) == 0
    assert list(found) == [1, 3]
    assert acl.aclGetTensorDescDimV2(desc, ctypes.c_size_t(7), found) != 0
    assert "dimension 7 of a descriptor with 2" in door.message()
    acl.aclDestroyTensorDesc(desc)
