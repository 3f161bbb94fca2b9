"""The spine of the compiler and the harness that the tests of the rules use."""

import numpy as np
import pytest

from tests.unit.xla_npu.oracle import check, program, run_npu, run_reference
from xla_npu.errors import CompileError


def test_spine():
    t = "tensor<2x3xf32>"
    text = program(
        f"%0 = stablehlo.add %a0, %a1 : {t}\n%1 = stablehlo.multiply %0, %a1 : {t}\nreturn %1 : {t}",
        [t, t],
        [t],
    )
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 0.5, np.float32)
    np.testing.assert_array_equal(run_reference(text, [x, y])[0], (x + y) * y)
    check(text, [x, y])


@pytest.mark.parametrize(
    "element", ["f32", "bf16", "f16", "i8", "i1", "i4", "f8E4M3FN", "ui32", "i64", "complex<f32>"]
)
def test_constants(element):
    t = f"tensor<3x{element}>"
    values = {"i1": "[true, false, true]", "complex<f32>": "[(1.0, 2.5), (0.0, 0x7FC00000), (-1.0, -0.0)]"}
    payload = values.get(element, "[1, 2, 3]" if "i" in element else "[1.5, -0.0, 3.0]")
    check(program(f"%0 = stablehlo.constant dense<{payload}> : {t}\nreturn %0 : {t}", [], [t]), [])


def test_unknown_operation_is_refused_by_name():
    t = "tensor<2xf32>"
    text = program(
        f'%0 = stablehlo.custom_call @nothing(%a0) : ({t}) -> {t} loc("here":7:1)\nreturn %0 : {t}', [t], [t]
    )
    with pytest.raises(CompileError, match=r"stablehlo.custom_call.*here:7"):
        run_npu(text, [np.zeros(2, np.float32)])
