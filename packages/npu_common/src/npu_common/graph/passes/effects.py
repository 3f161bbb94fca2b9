"""Which operators do more than compute their outputs, and which compute something else every time."""

from __future__ import annotations

from npu_common.graph.ir import Node

# They write to an input (a reference), talk to other ranks or to the host: never removed, never merged.
_EFFECTS = frozenset(
    ("Assign", "AssignAdd", "AssignSub", "InplaceUpdate", "InplaceAdd", "InplaceSub", "ScatterUpdate", "ScatterAdd",
     "ScatterSub", "ScatterNdUpdate", "ScatterNdAdd", "ScatterNdSub", "Scatter", "Print", "PrintV2", "Assert",
     "OutfeedEnqueueOp", "OutfeedEnqueueOpV2", "ApplyAdam", "ApplyAdamD", "ApplyAdamW", "ApplyMomentum")
)  # fmt: skip


def has_effect(node: Node) -> bool:
    if node.type in _EFFECTS or node.type.startswith("Hcom"):
        return True
    return any(has_effect(inner) for sub in node.subgraphs for inner in sub.nodes)


def is_random(node: Node) -> bool:
    """Draws from the engine's own state. Stateless generators are functions of their seed."""
    stateless = node.type.startswith("Stateless")
    if not stateless and (
        "Random" in node.type or node.type.startswith("DropOut") or node.type == "Multinomial"
    ):
        return True
    return any(is_random(inner) for sub in node.subgraphs for inner in sub.nodes)


def is_pure(node: Node) -> bool:
    return not (has_effect(node) or is_random(node))
