"""`npu ops`: which operators there are, and what runs them here."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from npu_common import toolkit
from npu_common.commands.errors import CommandError, near_miss, one_sentence


@dataclass(frozen=True)
class AclnnOperator:
    name: str
    exported: bool  # by the operator library that is loaded; whether it computes is known at the call


@dataclass(frozen=True)
class GraphOperator:
    name: str
    inferred: bool  # the graph language has a rule for its outputs' types
    aclnn: bool  # the executor aclnn has a line for it


@dataclass(frozen=True)
class Listing:
    provider: str
    version: str
    soc: str
    aclnn: list[AclnnOperator]
    graph: list[GraphOperator]


def ops(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME | SUBSTRING]...", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List operators, or describe those named in full (Add, aclnnAdd); other words filter the list."""
    with one_sentence():
        described = [found for name in names or [] if (found := describe(name)) is not None]
        if names and len(described) == len(names):
            print(json.dumps(described, indent=2)) if as_json else _show_operators(described)
            return
        listing = listed(names or [])
        print(json.dumps(asdict(listing), indent=2)) if as_json else _show_listing(listing, bool(names))


def listed(substrings: list[str]) -> Listing:
    """Operators whose name holds one of the substrings, in any case; all of them if there is none.

    Raises:
        CommandError: no operator's name does.
    """
    from npu_common import runtime
    from npu_common.graph.executors.aclnn import is_covered

    found = toolkit.activate()
    graph, language = _catalogue()
    known = [*runtime.ops.names(), *graph]

    def wanted(name: str) -> bool:
        return not substrings or any(each.lower() in name.lower() for each in substrings)

    for each in substrings:
        if not any(each.lower() in name.lower() for name in known):
            raise CommandError(f"CANN has no operator with '{each}' in its name{near_miss(each, known)}")
    return Listing(
        found.provider,
        found.version,
        runtime.soc_name(),
        [AclnnOperator(n, runtime.ops.exists(n)) for n in sorted(runtime.ops.names()) if wanted(n)],
        [GraphOperator(n, language.has_rule(n), is_covered(n)) for n in sorted(graph) if wanted(n)],
    )


def describe(name: str) -> dict[str, Any] | None:
    """What is known of the operator of exactly that name, or None."""
    from npu_common import runtime
    from npu_common.graph.executors.aclnn import is_covered

    toolkit.activate()
    if name in runtime.ops.names():
        exported = runtime.ops.exists(name)
        text = runtime.ops.signature(name) if exported else name
        return {"name": name, "kind": "aclnn", "exported": exported, "signature": text}
    operator = _catalogue()[1].find_operator(name)
    if operator is None:
        return None
    return {
        "name": name,
        "kind": "graph",
        "inferred": _catalogue()[1].has_rule(name),
        "aclnn": is_covered(name),
        "inputs": [_port(port) for port in operator.inputs],
        "outputs": [_port(port) for port in operator.outputs],
        "attributes": [
            {"name": a.name, "type": a.type, "required": a.required, "default": _plain(a.default)}
            for a in operator.attributes.values()
        ],
        "subgraphs": list(operator.subgraphs),
    }


def _catalogue() -> tuple[list[str], Any]:
    from npu_common import _cann
    from npu_common.graph.language import native

    return _cann.graph.operator_names(), native()


def _port(port: Any) -> dict[str, Any]:
    return {"name": port.name, "arity": port.arity, "dtypes": sorted(port.types)}


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, list, type(None))) else str(value)


def _show_listing(listing: Listing, every_name: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    exported = sum(each.exported for each in listing.aclnn)
    console.print(f"{listing.soc}, {listing.provider} {listing.version}")
    console.print(
        f"aclnn operators: {exported} of {len(listing.aclnn)} are exported (one may still refuse when it is called)"
    )
    inferred, lowered = sum(g.inferred for g in listing.graph), sum(g.aclnn for g in listing.graph)
    console.print(
        f"graph operators: {len(listing.graph)}, {inferred} with inference, {lowered} run by the executor aclnn"
    )
    if not every_name:
        console.print("`npu ops WORD` lists those with WORD in their name, `npu ops Add` describes one.")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("operator", "exported", "inference", "executor aclnn"):
        table.add_column(title)
    for op in listing.aclnn:
        table.add_row(op.name, _yes(op.exported), "", "")
    for each in listing.graph:
        table.add_row(each.name, "", _yes(each.inferred), _yes(each.aclnn))
    console.print(table)


def _show_operators(operators: list[dict[str, Any]]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for op in operators:
        console.print(f"[bold]{op['name']}[/bold]")
        if op["kind"] == "aclnn":
            console.print(f"  {escape(op['signature'])}\n  exported: {_yes(op['exported'])}")
            continue
        console.print(f"  inference: {_yes(op['inferred'])}, executor aclnn: {_yes(op['aclnn'])}")
        for side in ("inputs", "outputs"):
            for port in op[side]:
                types = ", ".join(port["dtypes"]) or "any"
                console.print(f"  {side[:-1]} {port['name']} ({port['arity']}): {types}")
        for a in op["attributes"]:
            default = "required" if a["required"] else f"default {a['default']!r}"
            console.print(escape(f"  attribute {a['name']}: {a['type']}, {default}"))
        if op["subgraphs"]:
            console.print(f"  subgraphs: {', '.join(op['subgraphs'])}")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
