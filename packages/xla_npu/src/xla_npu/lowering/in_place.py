"""Updates of a loop's states in place: an array that a loop fills row by row is not copied in each round."""

from __future__ import annotations

from npu_common.graph import Graph, Value
from npu_common.graph.ir import Node

# The operator that writes into its first input instead of a copy of it, and that input's name.
_IN_PLACE = {"TensorScatterUpdate": "ScatterNdUpdate", "TensorScatterAdd": "ScatterNdAdd"}


def update_in_place(body: Graph, states: int) -> None:
    """Lets updates of a state write into it where nothing else reads what they overwrite."""
    for state, result in list(zip(body.inputs, body.outputs, strict=True))[:states]:
        updates = _updates(state, result)
        for node in updates:
            node.type = _IN_PLACE[node.type]
            node.input_names[0] = "var"


def _updates(state: Value, result: Value) -> list[Node]:
    """The updates between a state and what becomes of it, if that is a chain of updates only."""
    found: list[Node] = []
    value = result
    while value is not state:
        node = value.node
        if node.type in _IN_PLACE:
            found.append(node)
        elif node.type != "Reshape":
            return []
        before = node.inputs[0]
        if before is None or sum(user is node for user, _ in before.uses) != 1:
            return []
        others = [user for user in before.users if user is not node]
        if others and not (found and all(_reads_first(user, found[-1]) for user in others)):
            return []
        value = before
    return found


def _reads_first(reader: Node, update: Node) -> bool:
    """Whether the reader copies out of the array something that the update then depends on."""
    if reader.type == "Reshape":
        users = reader.output.users
        return bool(users) and all(_reads_first(user, update) for user in users)
    if reader.type != "GatherV2":  # a slice would be a view of what is overwritten
        return False
    seen: set[Node] = set()
    pending = [value.node for value in update.inputs[1:] if value is not None]
    while pending:
        node = pending.pop()
        if node is reader:
            return True
        if node not in seen:
            seen.add(node)
            pending.extend(value.node for value in node.inputs if value is not None)
    return False
