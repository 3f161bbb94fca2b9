"""From one sharding to another."""

from __future__ import annotations

from typing import Any

from xla_npu.partition.emit import Emitter, shape_of
from xla_npu.partition.mesh import Axes, Sharding, parts


def reshard(emit: Emitter, value: Any, have: Sharding, want: Sharding) -> Any:
    """The device's part by the sharding `want` of an array of which it has the part by `have`.

    An axis that moves from the end of one dimension to the end of another is exchanged; what else goes is gathered,
    and what comes is cut out of what the device has then.
    """
    current = list(have)
    value = _move(emit, value, current, want)
    for dim, axes in enumerate(current):
        kept = common(axes, want[dim])
        if axes[kept:]:
            value = emit.all_gather(value, dim, axes[kept:])
            current[dim] = axes[:kept]
    for dim, axes in enumerate(current):
        if want[dim][len(axes) :]:
            value = emit.take(value, dim, want[dim][len(axes) :])
    return value


def common(some: Axes, others: Axes) -> int:
    """How many leading axes are the same."""
    count = 0
    for one, other in zip(some, others, strict=False):
        if one != other:
            break
        count += 1
    return count


def _move(emit: Emitter, value: Any, current: list[Axes], want: Sharding) -> Any:
    """Exchanges the axes that can be, and notes that in `current`."""
    moved = True
    while moved:
        moved = False
        for source, axes in enumerate(current):
            going = axes[common(axes, want[source]) :]
            if not going:
                continue
            for target in range(len(current)):
                # The last axes of the source, all in one order, are the next ones of the target.
                own, wanted = current[target], want[target]
                if target == source or wanted[: len(own)] != own:
                    continue
                coming = wanted[len(own) :]
                count = max((n for n in range(1, len(going) + 1) if going[-n:] == coming[:n]), default=0)
                if count == 0 or shape_of(value)[target] % parts(going[-count:]):
                    continue
                value = emit.all_to_all(value, target, source, going[-count:])
                current[source] = axes[: len(axes) - count]
                current[target] = (*own, *going[-count:])
                moved = True
                break
            if moved:
                break
    return value
