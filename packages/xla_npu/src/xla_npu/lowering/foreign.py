"""Custom calls that no rule knows: kernels for other hardware, and handlers that nobody registered."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from npu_common.graph import Value
from xla_npu.errors import Unsupported
from xla_npu.lowering.context import Context
from xla_npu.lowering.registry import lowers

_FOREIGN = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"tpu_custom_call", "a Pallas (Mosaic) kernel for TPUs"),
        (r"mosaic_gpu", "a Pallas (Mosaic) kernel for GPUs"),
        (r"triton|__gpu\$xla", "a Pallas (Triton) kernel for GPUs"),
        (r"__cudnn|cudnn|__cublas", "a kernel of NVIDIA's libraries"),
        (r"(cu|hip)(solver|sparse|blas|fft|dnn|hybrid|_)", "a kernel for GPUs"),
        (r"lapack_|xla_ffi_(partitioned_)?python_cpu|tridiagonal_solve_perturbed_ffi", "code for cpu"),
        (r"xla_(ffi|buffer|python).*_callback", "a Python callback for another platform"),
    )
)


@lowers("stablehlo.custom_call")
def unknown(ctx: Context, op: Any, *operands: Value) -> NoReturn:
    target = op.attributes["call_target_name"].value
    for pattern, what in _FOREIGN:
        if pattern.match(target):
            raise Unsupported(
                f"'{target}' is {what}, which npu cannot run: lower the program for npu with plain JAX operations"
            )
    raise Unsupported(f"npu has no handler for the custom call '{target}'")
