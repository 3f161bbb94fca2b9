"""A framework-neutral graph of CANN's operators: build it, check it, improve it, compile it. See README.md."""

from npu_common.graph.builder import Builder, emit
from npu_common.graph.ir import Graph, GraphError, Node, Value
from npu_common.graph.serialise import canonical_bytes, from_model, to_model

__all__ = [
    "Builder",
    "Graph",
    "GraphError",
    "Node",
    "Value",
    "canonical_bytes",
    "emit",
    "from_model",
    "to_model",
]
