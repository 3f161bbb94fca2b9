"""The devices that a program is for, and the groups of them that exchange data.

A *place* is a device's number in the program: replica * partitions + partition.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xla_npu.errors import CompileError

Groups = tuple[tuple[int, ...], ...]


@dataclass
class Devices:
    """`assignment`: the device id of each place. `groups`: those that the program uses so far, by name."""

    replicas: int = 1
    partitions: int = 1
    assignment: tuple[int, ...] = (0,)
    groups: dict[str, Groups] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.replicas * self.partitions

    def name(self, groups: Groups) -> str:
        """The name by which graphs call the communicators of these groups (each place is in one of them).

        It is of the device ids: programs on the same devices share their communicators.
        """
        ids = [[self.assignment[place] for place in group] for group in groups]
        name = f"xla-{hashlib.sha256(repr(ids).encode()).hexdigest()[:32]}"
        self.groups[name] = groups
        return name

    def groups_of(self, op: Any) -> Groups:
        """The process groups of a StableHLO collective with `replica_groups` (specification, "Process groups").

        Raises:
            CompileError: they name places that do not exist, or one twice.
        """
        listed = [[int(i) for i in row if i >= 0] for row in np.asarray(op.attributes["replica_groups"])]
        rows = [row for row in listed if row]
        channel = has_channel(op)
        if op.name in ("stablehlo.all_to_all", "stablehlo.collective_broadcast"):
            return self._checked(self._across(rows, partitions=channel))
        if "use_global_device_ids" in op.attributes:
            return self._checked([tuple(row) for row in rows or [list(range(self.count))]])
        if not channel:
            return self._checked(self._across(rows, partitions=False))
        replicas = rows or [list(range(self.replicas))]
        return self._checked(
            [tuple(self.place(r, p) for p in range(self.partitions) for r in row) for row in replicas]
        )

    def pairs_of(self, op: Any) -> list[tuple[int, int]]:
        """The places that a collective_permute sends from and to."""
        pairs = [(int(a), int(b)) for a, b in np.asarray(op.attributes["source_target_pairs"]).reshape(-1, 2)]
        across = self._across([list(pair) for pair in pairs], partitions=has_channel(op)) if pairs else []
        found = [(pair[0], pair[1]) for pair in across]
        for ends in zip(*found, strict=True):
            if len(set(ends)) != len(ends) or not all(0 <= end < self.count for end in ends):
                raise CompileError(
                    "a collective_permute sends from or to one device twice, or to none of these"
                )
        return found

    def place(self, replica: int, partition: int) -> int:
        return replica * self.partitions + partition

    def _across(self, rows: Sequence[Sequence[int]], partitions: bool) -> list[tuple[int, ...]]:
        """Rows of partitions, for each replica, or of replicas, for each partition."""
        if partitions:
            rows = rows or [range(self.partitions)]
            return [tuple(self.place(r, p) for p in row) for r in range(self.replicas) for row in rows]
        rows = rows or [range(self.replicas)]
        return [tuple(self.place(r, p) for r in row) for p in range(self.partitions) for row in rows]

    def _checked(self, groups: Sequence[tuple[int, ...]]) -> Groups:
        places = [place for group in groups for place in group]
        if len(set(places)) != len(places) or not all(0 <= place < self.count for place in places):
            raise CompileError(f"the replica groups {groups} do not fit a program for {self.count} devices")
        return tuple(groups)


def has_channel(op: Any) -> bool:
    """Whether a collective has a channel, which says that it is between partitions."""
    if "channel_handle" not in op.attributes and "channel_id" not in op.attributes:
        return False
    from jaxlib.mlir.dialects import stablehlo

    return int(stablehlo.ChannelHandle(op.attributes["channel_handle"]).handle) > 0
