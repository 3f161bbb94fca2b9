"""The table of lowering rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu_common.graph import Value

# A rule gets the context, the operation and the values of its operands (None for a token); it returns the values of
# the operation's results, one, a sequence, or None where there is none.
Rule = Callable[..., "Value | Sequence[Value | None] | None"]
RULES: dict[str, Rule] = {}


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operations: "stablehlo.add", or "custom_call:Sharding", "composite:chlo.top_k".

    Raises:
        ValueError: the operation has a rule already.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has a rule already, in {RULES[name].__module__}")
            RULES[name] = rule
        return rule

    return register


# A composite without its decomposition (partition/composites.py): the target, and the attribute with its name.
COMPOSITE_TARGET = "npu.composite"
COMPOSITE = "npu.composite"


def rule_name(operation: Any) -> str:
    """What the table knows an operation by."""
    name: str = operation.name
    if name == "stablehlo.custom_call" and COMPOSITE in operation.attributes:
        return f"composite:{operation.attributes[COMPOSITE].value}"
    if name == "stablehlo.custom_call":
        return f"custom_call:{operation.attributes['call_target_name'].value}"
    if name == "stablehlo.composite":
        return f"composite:{operation.attributes['name'].value}"
    return name


def rule_for(operation: Any) -> Rule | None:
    """The rule of an operation; composites and custom calls fall back to that of their kind."""
    return RULES.get(rule_name(operation)) or RULES.get(operation.name)


__all__ = ["COMPOSITE", "COMPOSITE_TARGET", "RULES", "Rule", "lowers", "rule_for", "rule_name"]
