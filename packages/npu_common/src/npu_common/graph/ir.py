"""A graph of GE operators: values, nodes, subgraphs. Mutable, with use lists, so that a pass costs what it changes.

A `Graph` is a set of nodes; order is a property of the edges (`Graph.order()`), not of how they were added.
Inputs are the values of `Data` nodes, outputs the inputs of one `NetOutput` node, as in the engine's own model.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npu_common.graph import dtypes

Shape = tuple[int | None, ...]
# bool, int, float, str, a dtype, lists of those, lists of lists of int, an array ("Tensor").
Attribute = Any

CONSTANTS = ("Const", "Constant")


class GraphError(ValueError):
    """A graph that makes no sense; says which node and what to do."""


class Value:
    """One output of a node. Compared by identity. `shape` is None where not even the rank is known."""

    __slots__ = ("dtype", "index", "node", "shape", "uses")

    def __init__(self, node: Node, index: int, dtype: dtypes.DType, shape: Shape | None) -> None:
        self.node = node
        self.index = index
        self.dtype = dtype
        self.shape = shape
        self.uses: dict[tuple[Node, int], None] = {}  # (node, position among its inputs), in order of making

    @property
    def constant(self) -> np.ndarray[Any, Any] | None:
        """The array of a constant (do not write to it), else None."""
        return self.node.attributes["value"] if self.node.type in CONSTANTS else None

    @property
    def is_static(self) -> bool:
        return self.shape is not None and None not in self.shape

    @property
    def users(self) -> list[Node]:
        """The nodes that read it, each once."""
        return list(dict.fromkeys(node for node, _ in self.uses))

    def type_text(self) -> str:
        """'float32[2,?,8]', 'float32[*]' where the rank is unknown."""
        if self.shape is None:
            return f"{self.dtype.name}[*]"
        return f"{self.dtype.name}[{','.join('?' if d is None else str(d) for d in self.shape)}]"

    def replace_uses(self, other: Value) -> int:
        """Every reader reads `other` from now on; returns how many reads that were."""
        moved = list(self.uses)
        for node, position in moved:
            node.set_input(position, other)
        return len(moved)

    def __repr__(self) -> str:
        return f"<{self.node.name}:{self.index} {self.type_text()}>"

    # Arithmetic builds nodes; comparison with == stays identity, values are keys of dictionaries.
    def __add__(self, other: Any) -> Value:
        return _binary("Add", self, other)

    def __radd__(self, other: Any) -> Value:
        return _binary("Add", other, self)

    def __sub__(self, other: Any) -> Value:
        return _binary("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return _binary("Sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return _binary("Mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return _binary("Mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return _binary("RealDiv", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return _binary("RealDiv", other, self)

    def __floordiv__(self, other: Any) -> Value:
        return _binary("FloorDiv", self, other)

    def __mod__(self, other: Any) -> Value:
        return _binary("FloorMod", self, other)

    def __pow__(self, other: Any) -> Value:
        return _binary("Pow", self, other)

    def __matmul__(self, other: Value) -> Value:
        plain = self.shape is not None and len(self.shape) == 2 == len(other.shape or ())
        return _binary("MatMulV2" if plain else "BatchMatMulV2", self, other)

    def __neg__(self) -> Value:
        from npu_common.graph.builder import emit

        return emit(self.node.graph, "Neg", self)[0]

    def __lt__(self, other: Any) -> Value:
        return _binary("Less", self, other)

    def __le__(self, other: Any) -> Value:
        return _binary("LessEqual", self, other)

    def __gt__(self, other: Any) -> Value:
        return _binary("Greater", self, other)

    def __ge__(self, other: Any) -> Value:
        return _binary("GreaterEqual", self, other)


def _binary(type: str, left: Any, right: Any) -> Value:
    from npu_common.graph.builder import emit  # the builder knows the catalogue, and imports this module

    graph = (left if isinstance(left, Value) else right).node.graph
    return emit(graph, type, left, right)[0]


class Node:
    """An operator of the catalogue with its inputs (None: an optional one that is absent) and outputs."""

    __slots__ = (
        "attributes",
        "controls",
        "graph",
        "input_names",
        "inputs",
        "name",
        "number",
        "outputs",
        "subgraphs",
        "type",
    )

    def __init__(self, graph: Graph, number: int, type: str, name: str) -> None:
        self.graph = graph
        self.number = number  # order of making within the graph: ties of the topological order
        self.type = type
        self.name = name
        self.inputs: list[Value | None] = []
        self.input_names: list[str] = []  # "x1", or "x0", "x1" ... of a dynamic input x
        self.outputs: list[Value] = []
        self.attributes: dict[str, Attribute] = {}  # those given; defaults are the catalogue's
        self.subgraphs: list[Graph] = []  # in the order of the catalogue
        self.controls: list[Node] = []  # nodes that must have run, without a value passing

    @property
    def output(self) -> Value:
        """The only output. Raises GraphError if there are more."""
        if len(self.outputs) != 1:
            raise GraphError(f"{self} has {len(self.outputs)} outputs: say which one")
        return self.outputs[0]

    def set_input(self, position: int, value: Value | None) -> None:
        old = self.inputs[position]
        if old is not None:
            del old.uses[(self, position)]
        self.inputs[position] = value
        if value is not None:
            value.uses[(self, position)] = None

    def set_inputs(self, values: Sequence[Value | None], names: Sequence[str]) -> None:
        for position in range(len(self.inputs)):
            self.set_input(position, None)
        self.inputs = [None] * len(values)
        self.input_names = list(names)
        for position, value in enumerate(values):
            self.set_input(position, value)

    def input(self, name: str) -> Value | None:
        """The input of that catalogue name, None if absent."""
        return self.inputs[self.input_names.index(name)] if name in self.input_names else None

    def __repr__(self) -> str:
        return f"{self.type} '{self.name}'"


class Graph:
    """`inputs` are Data values in order, `outputs` what it returns, `aliases` which output may take over the
    memory of which input (donation): {output index: input index}."""

    __slots__ = ("_names", "_next", "aliases", "attributes", "inputs", "name", "nodes", "result")

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[Node, None] = {}  # without NetOutput
        self.inputs: list[Value] = []
        self.aliases: dict[int, int] = {}
        self.attributes: dict[str, Attribute] = {}
        self._names: set[str] = set()
        self._next = 0
        self.result = Node(self, -1, "NetOutput", "NetOutput")
        self._names.add("NetOutput")

    @property
    def outputs(self) -> list[Value]:
        return [value for value in self.result.inputs if value is not None]

    def add_input(self, name: str, dtype: Any, shape: Shape | None) -> Value:
        node = self.add_node("Data", [], [], [(dtypes.dtype(dtype), shape)], name=name)
        self.inputs.append(node.outputs[0])
        return node.outputs[0]

    def add_constant(self, array: np.ndarray[Any, Any], name: str | None = None) -> Value:
        """A Const of a contiguous copy of the array, which nobody may write to."""
        held = np.array(array, order="C", copy=True)
        held.flags.writeable = False
        node = self.add_node("Const", [], [], [(dtypes.dtype(held.dtype), held.shape)], {"value": held}, name)
        return node.outputs[0]

    def add_output(self, value: Value, donated: int | None = None) -> int:
        """Returns the output's index. `donated`: the input whose memory it may take over."""
        index = len(self.result.inputs)
        self.set_outputs([*self.outputs, value])
        if donated is not None:
            self.aliases[index] = donated
        return index

    def set_outputs(self, values: Sequence[Value]) -> None:
        self.result.set_inputs(values, [f"input{i}" for i in range(len(values))])

    def add_node(
        self,
        type: str,
        inputs: Sequence[Value | None],
        input_names: Sequence[str],
        outputs: Sequence[tuple[dtypes.DType, Shape | None]],
        attributes: dict[str, Attribute] | None = None,
        name: str | None = None,
        subgraphs: Sequence[Graph] = (),
    ) -> Node:
        """A node as it is told, unchecked: `builder.emit` checks and infers."""
        node = Node(self, self._next, type, self._unique(name or type))
        self._next += 1
        node.set_inputs(inputs, input_names)
        node.outputs = [Value(node, i, dtype, shape) for i, (dtype, shape) in enumerate(outputs)]
        node.attributes = dict(attributes or {})
        node.subgraphs = list(subgraphs)
        self.nodes[node] = None
        return node

    def remove(self, node: Node) -> None:
        """Raises GraphError if something still reads it."""
        for value in node.outputs:
            if value.uses:
                raise GraphError(f"{node} cannot be removed: {value.users[0]} reads it")
        node.set_inputs([], [])
        del self.nodes[node]
        self._names.discard(node.name)

    def order(self) -> list[Node]:
        """Nodes before what reads them; where edges leave a choice, in the order of making.

        Raises:
            GraphError: a cycle, or a value of another graph.
        """
        waiting: dict[Node, int] = {}
        followers: dict[Node, list[Node]] = {}
        for node in self.nodes:
            before = {value.node for value in node.inputs if value is not None} | set(node.controls)
            for earlier in before:
                if earlier not in self.nodes:
                    raise GraphError(
                        f"{node} of graph '{self.name}' depends on {earlier}, which is not in it"
                    )
                followers.setdefault(earlier, []).append(node)
            waiting[node] = len(before)
        ready = [(node.number, node) for node, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        out: list[Node] = []
        while ready:
            _, node = heapq.heappop(ready)
            out.append(node)
            for follower in followers.get(node, ()):
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    heapq.heappush(ready, (follower.number, follower))
        if len(out) != len(self.nodes):
            stuck = next(node for node, count in waiting.items() if count > 0)
            raise GraphError(f"graph '{self.name}' has a cycle through {stuck}")
        return out

    def walk(self) -> Iterator[Graph]:
        """This graph and all below it, each once."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            graph = pending.pop()
            if id(graph) in seen:
                continue
            seen.add(id(graph))
            yield graph
            below = [sub for node in graph.nodes for sub in node.subgraphs]
            pending += reversed(below)

    def _unique(self, wanted: str) -> str:
        name, count = wanted, 0
        if wanted in self._names:
            count = self._next
            while (name := f"{wanted}_{count}") in self._names:
                count += 1
        self._names.add(name)
        return name

    def __repr__(self) -> str:
        return f"<graph '{self.name}' of {len(self.nodes)} nodes>"
