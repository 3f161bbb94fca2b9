"""Composites before propagation: Shardy passes no sharding through one.

What the graph engine has an operator for becomes a custom call with a sharding rule, which may change its sizes as the
decomposition of a composite may not; the others are replaced by what they stand for.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from xla_npu.frontend import functions, inline, nested
from xla_npu.lowering.registry import COMPOSITE, COMPOSITE_TARGET, RULES, rule_name
from xla_npu.partition.emit import shape_of

TOP_K = "composite:chlo.top_k"


def open_composites(module: Any) -> None:
    """Leaves no composite in `main`, in place."""
    table = functions(module)
    with module.context, ir.Location.unknown():
        while found := [op for op in nested(table["main"].operation) if op.name == "stablehlo.composite"]:
            for op in found:
                if is_elementwise(op) or rule_name(op) == TOP_K:
                    _call(op)
                else:
                    inline(op, table[op.attributes["decomposition"].value])


def is_elementwise(op: Any) -> bool:
    """Whether a composite is a function of one real number with a lowering of its own."""
    if rule_name(op) not in RULES or len(op.operands) != 1 or len(op.results) != 1:
        return False
    types = {str(value.type) for value in (*op.operands, *op.results)}
    return len(types) == 1 and "complex" not in types.pop()


def _call(op: Any) -> None:
    attributes = {
        "call_target_name": ir.StringAttr.get(COMPOSITE_TARGET),
        COMPOSITE: op.attributes["name"],
        "sdy.sharding_rule": _top_k_rule(op) if rule_name(op) == TOP_K else _elementwise_rule(op),
    }
    if "composite_attributes" in op.attributes:
        attributes["composite_attributes"] = op.attributes["composite_attributes"]
    made = ir.Operation.create(
        "stablehlo.custom_call",
        results=[result.type for result in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for result, new in zip(op.results, made.results, strict=True):
        result.replace_all_uses_with(new)
    op.erase()


def _elementwise_rule(op: Any) -> Any:
    shape = shape_of(op.operands[0])
    dims = _dims(len(shape))
    return _rule(f"([{', '.join(dims)}])->([{', '.join(dims)}])", dict(zip(dims, shape, strict=True)), [])


def _top_k_rule(op: Any) -> Any:
    """Cut along all dimensions but the last."""
    shape, k = shape_of(op.operands[0]), shape_of(op.results[0])[-1]
    *dims, last, few = _dims(len(shape) + 1)
    result = f"[{', '.join([*dims, few])}]"
    sizes = dict(zip([*dims, last, few], [*shape, k], strict=True))
    return _rule(f"([{', '.join([*dims, last])}])->({result}, {result})", sizes, [last, few])


def _dims(rank: int) -> list[str]:
    return ["ijklmnopqrstuvwxyz"[dim] if dim < 18 else f"z_{dim - 17}" for dim in range(rank)]


def _rule(mapping: str, sizes: dict[str, int], whole: list[str]) -> Any:
    listed = ", ".join(f"{dim}={size}" for dim, size in sizes.items())
    needed = f" need_replication={{{', '.join(whole)}}}" if whole else ""
    return ir.Attribute.parse(f"#sdy.op_sharding_rule<{mapping} {{{listed}}}{needed}, custom>")
