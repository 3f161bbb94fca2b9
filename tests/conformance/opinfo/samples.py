"""The operators of op_db, their samples, and one sample's run in each mode."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves

from .layouts import copy_tree, map_tensors

#: Operators whose further tensors PyTorch wants on the CPU, wherever the first one is (torch.tensor_split
#: says so for its indices).
ARGUMENTS_ON_CPU = frozenset({"tensor_split"})
MODES = ("forward", "backward", "inplace", "out")


@cache
def operators() -> dict[str, OpInfo]:
    """Every record of op_db by its full name (name and variant), as torch's own tests name them."""
    return {(f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name): op for op in op_db}


@dataclass
class Sample:
    """A SampleInput's operands as one tree, `operands` = (input, args, kwargs), on the CPU."""

    operands: tuple[Any, tuple[Any, ...], dict[str, Any]]
    process_for_gradient: Callable[[Any], Any]
    broadcasts_input: bool

    def describe(self) -> str:
        """The operands as text: shapes, dtypes and, where not contiguous, strides of tensors; other
        arguments as they are.
        """

        def text(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                strides = leaf.layout == torch.strided and not leaf.is_contiguous()
                return (
                    f"{leaf.dtype}".removeprefix("torch.")
                    + f"{list(leaf.shape)}"
                    + (f"/{leaf.stride()}" if strides else "")
                )
            return leaf

        first, args, kwargs = (map_tensors(text, part) for part in self.operands)
        return ", ".join([str(first), *map(str, args), *(f"{k}={v}" for k, v in kwargs.items())])[
            :400
        ].replace("'", "")


def _seed(name: str) -> None:
    seed = int.from_bytes(name.encode()[-4:], "little")
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def samples(op: OpInfo, dtype: torch.dtype, mode: str, at_most: int = 0) -> list[Sample]:
    """The operator's samples on the CPU, always the same ones; with `at_most`, that many spread evenly over
    all of them.
    """
    if dtype not in op.supported_dtypes("cpu"):
        return []
    if mode == "backward" and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
        return []
    if (mode == "inplace" and op.inplace_variant is None) or (mode == "out" and not op.supports_out):
        return []
    _seed(op.name)
    # sample_inputs_func, as sample_inputs looks through the whole call stack for every set of samples
    made: list[SampleInput] = list(op.sample_inputs_func(op, "cpu", dtype, mode == "backward"))
    if at_most and len(made) > at_most:
        made = [made[i * len(made) // at_most] for i in range(at_most)]
    return [Sample((s.input, s.args, s.kwargs), s.output_process_fn_grad, s.broadcasts_input) for s in made]


class NothingToDifferentiate(Exception):
    """A sample without an input or an output that requires a gradient."""


def run(
    op: OpInfo, sample: Sample, mode: str, device: str, layout: str = "as-is", expected: Any = None
) -> Any:
    """Runs one sample on a device and returns what is to be compared, results and operands (an operator may
    not write where it should not).

    forward: the results. backward: the gradients of the inputs, for a fixed cotangent. inplace: what the
    method returns and the tensor it wrote. out: the tensors passed as out=, which are made after `expected`
    (for the CPU: after a forward run).
    """
    first, args, kwargs = copy_tree(sample.operands, device, layout)
    if op.name in ARGUMENTS_ON_CPU:
        args, kwargs = sample.operands[1:]
    if mode == "forward":
        return op(first, *args, **kwargs), _plain_operands((first, args, kwargs))
    if mode == "inplace":
        if sample.broadcasts_input:
            raise NothingToDifferentiate
        return op.inplace_variant(first, *args, **kwargs), first
    if mode == "out":
        made = expected[0] if expected is not None else op(first, *args, **kwargs)
        out = copy_tree(map_tensors(lambda t: torch.full_like(t.detach().cpu(), 1), made), device, layout)
        if not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(out)):
            raise NothingToDifferentiate
        op(first, *args, **kwargs, out=tuple(out) if isinstance(out, tuple | list) else out)
        return (out,)
    return _gradients(op, sample, (first, args, kwargs), device)


def _gradients(op: OpInfo, sample: Sample, operands: Any, device: str) -> Any:
    first, args, kwargs = operands
    inputs = [leaf for leaf in tree_leaves(operands) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    result = sample.process_for_gradient(op(first, *args, **kwargs))
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not inputs or not outputs:
        raise NothingToDifferentiate
    source = torch.Generator().manual_seed(20)

    def cotangent(output: torch.Tensor) -> torch.Tensor:
        if output.layout != torch.strided:
            return torch.ones_like(output)
        # drawn in single precision and cast: the same values for an output that is double on the CPU only
        single = torch.complex64 if output.is_complex() else torch.float32
        return torch.randn(output.shape, dtype=single, generator=source).to(output.dtype).to(device)

    cotangents = [cotangent(output) for output in outputs]
    return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)


def _plain_operands(operands: Any) -> list[torch.Tensor]:
    return [
        leaf
        for leaf in tree_leaves(operands)
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
    ]


def in_double(sample: Sample, dtype: torch.dtype) -> Sample:
    """The same operands in double precision, for a reference; arguments that name `dtype` name the double
    one.
    """
    wide = {True: torch.complex128, False: torch.float64}

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            return leaf.detach().to(wide[leaf.is_complex()]).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.dtype) and (leaf.is_floating_point or leaf.is_complex):
            return wide[leaf.is_complex]
        return leaf

    return Sample(
        torch.utils._pytree.tree_map(widen, sample.operands),
        sample.process_for_gradient,
        sample.broadcasts_input,
    )
