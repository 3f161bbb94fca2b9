"""Programs for several devices: what each of them runs. See README.md."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from xla_npu.devices import Devices
from xla_npu.errors import Unsupported
from xla_npu.frontend import functions, nested
from xla_npu.lowering.registry import rule_name
from xla_npu.partition import families, host_calls, indexed, regions, sources  # noqa: F401 (their rules)
from xla_npu.partition.composites import open_composites
from xla_npu.partition.main import Shardings, write_parts
from xla_npu.partition.partitioner import RULES
from xla_npu.partition.propagate import propagate

_GSPMD = ("custom_call:Sharding", "custom_call:SPMDFullToShardShape", "custom_call:SPMDShardToFullShape")
_lock = threading.Lock()
_taken: Counter[str] = Counter()


def default_rule_counts(reset: bool = False) -> dict[str, int]:
    """How often programs compiled by this process gather an operation's operands, because no partitioning rule knows
    the operation: by operation. `reset`: counting begins again."""
    with _lock:
        found = dict(_taken)
        if reset:
            _taken.clear()
        return found


def supported() -> list[str]:
    """The operations with a partitioning rule, sorted."""
    return sorted(RULES)


def partition(module: Any, devices: Devices) -> Shardings | None:
    """Makes `main` what each device runs on its parts, in place. None: the program says nothing of shardings, and is what
    each replica runs as it stands.

    Args:
        module: StableHLO with Shardy's shardings; calls have been inlined.

    Raises:
        Unsupported: replicas beside shardings, or GSPMD's annotations.
        CompileError: the shardings make no sense.
    """
    main = functions(module)["main"]
    if any(rule_name(op) in _GSPMD for op in nested(main.operation)) or "mhlo.sharding" in str(
        [main.attributes[name] for name in ("arg_attrs", "res_attrs") if name in main.attributes]
    ):
        raise Unsupported("GSPMD's shardings are not supported on npu: leave jax_use_shardy_partitioner on")
    if not any(op.operation.name == "sdy.mesh" for op in module.body.operations):
        # Each partition runs it as it stands.
        return Shardings.whole(main) if devices.replicas == 1 else None
    if devices.replicas > 1:
        raise Unsupported("a program with shardings and replicas is not supported on npu")
    open_composites(module)
    propagate(module)
    made = write_parts(module, devices.count)
    with _lock:
        _taken.update(made.default)
    return made


__all__ = ["Shardings", "default_rule_counts", "partition", "supported"]
