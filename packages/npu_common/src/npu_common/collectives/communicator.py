"""The communicator: a rank's membership in a group, and the collectives of the group."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from npu_common import _cann
from npu_common.collectives._call import Call, divided, first_extent, offsets, require_size
from npu_common.runtime import Stream
from npu_common.runtime._library import ready
from npu_common.runtime.dtypes import hccl_code


class ReduceOp(enum.IntEnum):
    """HcclReduceOp."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3


@dataclass(frozen=True)
class Send:
    """A message to `peer`, for batch_isend_irecv."""

    array: Any
    peer: int


@dataclass(frozen=True)
class Receive:
    """A message from `peer` into the array, for batch_isend_irecv."""

    array: Any
    peer: int


class Communicator:
    """One rank's side of a group.

    All ranks call the same collectives in the same order, each with arrays on its own device. A collective returns
    when it is on the stream (by default the current one of the device) and gives its output; arrays are contiguous.
    Tensors of other frameworks are waited for, before and after, since their streams are not known here. One thread
    at a time uses a communicator.

    Args:
        root: the bytes of `root_info()`, the same on every rank.
        name: at most 127 characters; HCCL's choice by default.
        deterministic: the same result in each run.
        execution_timeout: seconds that a collective waits for a peer (HCCL_EXEC_TIMEOUT by default).

    Raises:
        HcclError: HCCL_E_TIMEOUT when the other ranks do not come within HCCL_CONNECT_TIMEOUT seconds.
    """

    def __init__(
        self,
        root: bytes,
        *,
        rank: int,
        size: int,
        device: int | None = None,
        name: str = "",
        buffer_megabytes: int | None = None,
        deterministic: bool | None = None,
        execution_timeout: int | None = None,
    ) -> None:
        ready()
        self._native = _cann.Communicator.join(
            root,
            rank,
            size,
            rank if device is None else device,
            name,
            buffer_megabytes,
            deterministic,
            execution_timeout,
        )

    @staticmethod
    def root_info(device: int = 0) -> bytes:
        """What rank 0 makes, on its device, and every rank needs to join."""
        ready()
        return _cann.Communicator.root_info(device)

    @classmethod
    def all(cls, devices: Sequence[int]) -> list[Communicator]:
        """The communicators of ranks that are all in this process, one a device."""
        ready()
        return [cls._wrap(each) for each in _cann.Communicator.all(list(devices))]

    @classmethod
    def _wrap(cls, native: _cann.Communicator) -> Communicator:
        communicator = cls.__new__(cls)
        communicator._native = native
        return communicator

    def sub(self, ranks: Sequence[int], *, id: int, name: str = "") -> Communicator | None:
        """The communicator of some of the ranks; every rank of this one calls it, and those outside get None.

        Args:
            id: tells apart groups; the same on their ranks.
        """
        made = self._native.sub(list(ranks), id, name, None, None, None)
        return None if made is None else self._wrap(made)

    @property
    def rank(self) -> int:
        return self._native.rank

    @property
    def size(self) -> int:
        return self._native.size

    @property
    def device(self) -> int:
        return self._native.device

    @property
    def name(self) -> str:
        return self._native.name

    def close(self) -> None:
        """Leaves the group; what is on streams still runs. A second time does nothing."""
        self._native.close()

    def abort(self, timeout: float = 10.0) -> None:
        """Gives up on collectives that do not end: stops the device's work and leaves the group."""
        self._native.abort(timeout)

    def check(self) -> None:
        """Raises HcclError when a collective failed asynchronously: a peer died or timed out."""
        self._native.check_async_error()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Collectives of equal pieces.

    def all_reduce(
        self, x: Any, *, out: Any = None, op: ReduceOp = ReduceOp.SUM, stream: Stream | None = None
    ) -> Any:
        """The reduction of every rank's `x`, on every rank. `out` may be `x`."""
        with Call(self.device, stream) as call:
            source, target = call.reads(x), call.writes(out, like=x)
            require_size(target, source.size, "out", "x")
            call.same_dtype(source, target)
            self._native.all_reduce(source.address, target.address, source.size, call.type, op, call.stream)
        return target if out is None else out

    def broadcast(self, x: Any, *, root: int, stream: Stream | None = None) -> Any:
        """Overwrites every rank's `x` with that of the rank `root`."""
        with Call(self.device, stream) as call:
            target = call.writes(x)
            self._native.broadcast(target.address, target.size, call.type, root, call.stream)
        return x

    def reduce(
        self, x: Any, *, root: int, out: Any = None, op: ReduceOp = ReduceOp.SUM, stream: Stream | None = None
    ) -> Any:
        """The reduction on the rank `root`; None on the others."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            # HCCL wants a receive buffer on every rank and says nothing of what it holds elsewhere.
            target = call.writes(out if self.rank == root else None, like=x)
            require_size(target, source.size, "out", "x")
            call.same_dtype(source, target)
            self._native.reduce(source.address, target.address, source.size, call.type, op, root, call.stream)
        if self.rank != root:
            return None
        return target if out is None else out

    def all_gather(self, x: Any, *, out: Any = None, stream: Stream | None = None) -> Any:
        """The ranks' `x` one after another: shape (size * n, ...) from (n, ...)."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            shape = first_extent(source, lambda n: n * self.size)
            target = call.writes(out, shape=shape, like=x)
            require_size(target, source.size * self.size, "out", "x of all ranks")
            call.same_dtype(source, target)
            self._native.all_gather(source.address, target.address, source.size, call.type, call.stream)
        return target if out is None else out

    def reduce_scatter(
        self, x: Any, *, out: Any = None, op: ReduceOp = ReduceOp.SUM, stream: Stream | None = None
    ) -> Any:
        """This rank's piece of the reduction: shape (n / size, ...) from (n, ...)."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            target = call.writes(out, shape=divided(source, self.size), like=x)
            require_size(source, target.size * self.size, "x", "out of all ranks")
            call.same_dtype(source, target)
            self._native.reduce_scatter(
                source.address, target.address, target.size, call.type, op, call.stream
            )
        return target if out is None else out

    def all_to_all(self, x: Any, *, out: Any = None, stream: Stream | None = None) -> Any:
        """Piece i of `x` goes to rank i; the pieces of the ranks, in their order, come back."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            divided(source, self.size)
            target = call.writes(out, like=x)
            require_size(target, source.size, "out", "x")
            call.same_dtype(source, target)
            count = source.size // self.size
            self._native.all_to_all(source.address, target.address, count, call.type, call.stream)
        return target if out is None else out

    def scatter(self, x: Any, *, root: int, out: Any = None, stream: Stream | None = None) -> Any:
        """Piece i of the root's `x` on rank i. The other ranks pass None and `out`."""
        with Call(self.device, stream) as call:
            if self.rank == root:
                source = call.reads(x)
                target = call.writes(out, shape=divided(source, self.size), like=x)
                require_size(source, target.size * self.size, "x", "out of all ranks")
                call.same_dtype(source, target)
            else:
                if out is None:
                    raise ValueError(
                        "a rank that is not the root of a scatter passes out, which tells shape and dtype"
                    )
                target = source = call.writes(out)
            self._native.scatter(source.address, target.address, target.size, call.type, root, call.stream)
        return target if out is None else out

    def barrier(self, *, stream: Stream | None = None) -> None:
        """Work that comes after it on the stream runs when all ranks have come there."""
        with Call(self.device, stream) as call:
            self._native.barrier(call.stream)

    # Pieces of different sizes: counts are elements, one for each rank; the pieces lie one after another.

    def all_gather_v(
        self, x: Any, counts: Sequence[int], *, out: Any = None, stream: Stream | None = None
    ) -> Any:
        """The ranks' `x` one after another; rank i brings counts[i] elements."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            self._require_counts(counts, "counts")
            require_size(source, counts[self.rank], "x", "counts")
            target = call.writes(out, shape=(sum(counts),), like=x)
            require_size(target, sum(counts), "out", "counts")
            call.same_dtype(source, target)
            starts = offsets(counts)
            self._native.all_gather_v(
                source.address, source.size, target.address, list(counts), starts, call.type, call.stream
            )
        return target if out is None else out

    def reduce_scatter_v(
        self,
        x: Any,
        counts: Sequence[int],
        *,
        out: Any = None,
        op: ReduceOp = ReduceOp.SUM,
        stream: Stream | None = None,
    ) -> Any:
        """This rank's counts[rank] elements of the reduction."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            self._require_counts(counts, "counts")
            require_size(source, sum(counts), "x", "counts")
            target = call.writes(out, shape=(counts[self.rank],), like=x)
            require_size(target, counts[self.rank], "out", "counts")
            call.same_dtype(source, target)
            starts = offsets(counts)
            self._native.reduce_scatter_v(
                source.address, list(counts), starts, target.address, call.type, op, call.stream
            )
        return target if out is None else out

    def all_to_all_v(
        self,
        x: Any,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
        *,
        out: Any = None,
        stream: Stream | None = None,
    ) -> Any:
        """send_counts[i] elements go to rank i, receive_counts[i] come from it."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            self._require_counts(send_counts, "send_counts")
            self._require_counts(receive_counts, "receive_counts")
            require_size(source, sum(send_counts), "x", "send_counts")
            target = call.writes(out, shape=(sum(receive_counts),), like=x)
            require_size(target, sum(receive_counts), "out", "receive_counts")
            call.same_dtype(source, target)
            self._native.all_to_all_v(
                source.address,
                list(send_counts),
                offsets(send_counts),
                target.address,
                list(receive_counts),
                offsets(receive_counts),
                call.type,
                call.stream,
            )
        return target if out is None else out

    # Messages.

    def send(self, x: Any, peer: int, *, stream: Stream | None = None) -> None:
        """Sends to a rank, which receives as many elements."""
        with Call(self.device, stream) as call:
            source = call.reads(x)
            self._native.send(source.address, source.size, call.type, peer, call.stream)

    def receive(self, out: Any, peer: int, *, stream: Stream | None = None) -> Any:
        """Fills `out` from a rank's send."""
        with Call(self.device, stream) as call:
            target = call.writes(out)
            self._native.receive(target.address, target.size, call.type, peer, call.stream)
        return out

    def batch_isend_irecv(self, messages: Sequence[Send | Receive], *, stream: Stream | None = None) -> None:
        """Sends and receives that go on together, so that their order does not matter between peers."""
        with Call(self.device, stream) as call:
            items = []
            for message in messages:
                sends = isinstance(message, Send)
                array = call.reads(message.array) if sends else call.writes(message.array)
                items.append((sends, array.address, array.size, hccl_code(array.dtype_code), message.peer))
            self._native.batch_send_receive(items, call.stream)

    def _require_counts(self, counts: Sequence[int], what: str) -> None:
        if len(counts) != self.size or min(counts) < 0:
            raise ValueError(
                f"{what} holds a number of elements for each of {self.size} ranks, not {list(counts)}"
            )

    def __repr__(self) -> str:
        return f"<Communicator of rank {self.rank} of {self.size} on npu:{self.device}>"
