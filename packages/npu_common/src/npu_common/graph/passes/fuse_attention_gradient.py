"""FlashAttentionScore and FlashAttentionScoreGrad from softmax attention and its gradient in one graph.

With p = softmax(scores), o = p v and the gradient do of o (Dao et al., FlashAttention, 2022, appendix B.2):

    dv = p^T do        dp = do v^T        ds = p (dp - rowsum(dp p))        dq = scale ds k        dk = scale ds^T q

All of o, dq, dk and dv have to be there and nothing else may read p or what leads from it to them: the fused
operators keep none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as combinations
from math import isclose

from npu_common.graph.ir import Graph, Node, Value
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.fuse_attention import (
    PRODUCTS,
    SCORES,
    Options,
    add_forward,
    factor,
    options_of,
)
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import (
    Bindings,
    Match,
    Pattern,
    any_of,
    bind,
    ints,
    number,
    op,
    var,
)

_q, _k, _v, _do = var("q"), var("k"), var("v"), var("do")
_p = op("SoftmaxV2", SCORES)


def _times(a: Pattern, b: Pattern, turn_a: bool = False, turn_b: bool = False) -> Pattern:
    return op(PRODUCTS, a, b, adj_x1=turn_a, adj_x2=turn_b)


def _turned(x: Pattern) -> Pattern:
    return op("Transpose", x, ints("turn"))


_dp = _times(_do, _v, turn_b=True)
_weighted = op("Mul", _dp, _p)
_total = op("ReduceSum", _weighted, ints("rows"), keep_dims=True)
_ds = any_of(op("Mul", _p, op("Sub", _dp, _total)), op("Sub", _weighted, op("Mul", _p, _total)))
_selected = any_of(op("SelectV2", var("keep"), _ds, number("nothing")), _ds)
_ATTENTION = _times(_p, _v)


def _patterns(scaled: Pattern) -> dict[str, Pattern]:
    """As the product says it, and as the transpose of the other product: autodiff of q (k^T) gives both."""
    return {
        "dq": any_of(_times(scaled, _k), _turned(_times(_k, scaled, turn_a=True, turn_b=True))),
        "dk": any_of(_times(scaled, _q, turn_a=True), _turned(_times(_q, scaled, turn_a=True))),
        "dv": any_of(_times(_p, _do, turn_a=True), _turned(_times(_do, _p, turn_a=True))),
    }


# One way of scaling for both dq and dk. The names are not the forward's: the numbers are compared, not the constants.
_GRADIENTS = tuple(
    _patterns(scaled)
    for scaled in (
        op("Mul", _selected, number("gradient_scale")),
        op("RealDiv", _selected, number("gradient_divisor")),
        _selected,
    )
)
_LAST = ([-1], [3])


def _run(graph: Graph, language: GraphLanguage) -> int:
    changes = 0
    for node in graph.order():
        if node in graph.nodes and node.type == "SoftmaxV2":
            changes += _fuse(node, language)
    return changes


def _fuse(softmax: Node, language: GraphLanguage) -> int:
    for outputs, found in _candidates(softmax, language):
        options = options_of(found) if _says_the_same(found) else None
        if options is None or not _is_scaled_alike(found, options):
            continue
        _replace(outputs, found, options)
        return 1
    return 0


def _candidates(softmax: Node, language: GraphLanguage) -> Iterator[tuple[dict[str, Value], Match]]:
    """Every o, dq, dk, dv that hang together with this softmax."""
    near = _downstream(softmax.outputs[0], 8)
    for attention in near:
        for values, inner in bind(_ATTENTION, attention, {}, frozenset(), language):
            if softmax not in inner:
                continue
            for gradients, bound, nodes in _gradients(near, values, inner, language):
                outputs = {"o": attention} | gradients
                roots = {value.node for value in outputs.values()}
                if _closed(nodes, roots):
                    yield outputs, Match(bound, nodes, attention.node.graph, attention, language)


def _gradients(
    near: list[Value], values: Bindings, inner: frozenset[Node], language: GraphLanguage
) -> Iterator[tuple[dict[str, Value], Bindings, frozenset[Node]]]:
    """dq, dk and dv, each with what is bound by then."""
    for patterns in _GRADIENTS:
        states: list[tuple[dict[str, Value], Bindings, frozenset[Node]]] = [({}, values, inner)]
        for name, pattern in patterns.items():
            states = [
                (chosen | {name: value}, *state)
                for (chosen, bound, nodes), value in combinations(states, near)
                for state in bind(pattern, value, bound, nodes, language)
            ]
        yield from states


def _downstream(value: Value, steps: int) -> list[Value]:
    """What is computed from the value in so many steps or fewer, in order of discovery."""
    found: dict[Value, None] = {}
    edge = [value]
    for _ in range(steps):
        edge = [out for each in edge for user in each.users for out in user.outputs if out not in found]
        found |= dict.fromkeys(edge)
    return list(found)


def _closed(nodes: frozenset[Node], roots: set[Node]) -> bool:
    return all(user in nodes for node in nodes - roots for value in node.outputs for user in value.users)


def _says_the_same(found: Match) -> bool:
    """Axes of the sum and of transposes, and zeros outside the mask."""
    if found.ints("rows") not in _LAST or found["do"].shape != found.root.shape:
        return False
    if "turn" in found.values and found.ints("turn") not in ([0, 1, 3, 2], [0, 1, -1, -2]):
        return False
    if "nothing" in found.values and found.scalar("nothing") != 0:
        return False
    return ("low" in found.values) == ("nothing" in found.values)  # masked forward, masked backward


def _is_scaled_alike(found: Match, options: Options) -> bool:
    """To a rounding of float32: a quotient and a product by the reciprocal are one number."""
    return isclose(factor(found, "gradient_scale", "gradient_divisor"), options.scale, rel_tol=2**-22)


def _replace(outputs: dict[str, Value], found: Match, options: Options) -> None:
    q, k, v = found["q"], found["k"], found["v"]
    highest, total, _, attention = add_forward(found, options)
    absent = (q.dtype, (0,))  # gradients of inputs that are not given
    shift = absent if options.shift is None else (options.shift.dtype, options.shift.shape)
    dq, dk, dv, *_ = found.builder().add_many(
        "FlashAttentionScoreGrad",
        q,
        k,
        v,
        found["do"],
        pse_shift=options.shift,
        atten_mask=options.dropped,
        softmax_max=highest,
        softmax_sum=total,
        attention_in=attention,
        outputs=[*((x.dtype, x.shape) for x in (q, k, v)), shift, absent, absent, absent],
        **options.attributes(q),
    )
    for name, new in {"o": attention, "dq": dq, "dk": dk, "dv": dv}.items():
        outputs[name].replace_uses(new)


FUSE_ATTENTION_GRADIENT = Pass("fuse attention and its gradient", _run)
