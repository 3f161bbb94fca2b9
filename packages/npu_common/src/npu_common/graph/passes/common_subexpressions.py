"""Computes equal expressions once. Nodes with subgraphs are left alone."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from npu_common.graph.ir import Graph, Node
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.effects import is_pure
from npu_common.graph.passes.manager import Pass


def merge_common_subexpressions(graph: Graph, language: GraphLanguage) -> int:
    seen: dict[Hashable, Node] = {}
    merged = 0
    for node in graph.order():
        if node.type == "Data" or node.subgraphs or node.controls or not is_pure(node):
            continue
        first = seen.setdefault(_key(node), node)
        if first is not node:
            merged += sum(a.replace_uses(b) > 0 for a, b in zip(node.outputs, first.outputs, strict=True))
    return int(merged)


def _key(node: Node) -> Hashable:
    inputs = tuple((None, 0) if v is None else (v.node.number, v.index) for v in node.inputs)
    attributes = tuple((name, _frozen(value)) for name, value in sorted(node.attributes.items()))
    return node.type, inputs, tuple(node.input_names), attributes, len(node.outputs)


def _frozen(value: Any) -> Hashable:
    # Equal in bits, not in value: 0.0 and -0.0 are two constants, and NaN is one.
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(v) for v in value)
    return type(value).__name__, str(value)


COMMON_SUBEXPRESSIONS = Pass("common subexpressions", merge_common_subexpressions)
