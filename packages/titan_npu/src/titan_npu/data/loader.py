"""TorchTitan's parallel-aware data loader over local text."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torchdata.stateful_dataloader import StatefulDataLoader
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.components.tokenizer import BaseTokenizer

from titan_npu.data.packing import Deal, PackedTextDataset, Sample
from titan_npu.data.sources import Format, open_documents
from titan_npu.errors import CheckpointError


class LocalTextDataLoader(ParallelAwareDataloader):
    """Batches of packed local text; deterministic and checkpointable with any number of workers.

    Yields ({"input", "positions"}: int64 [local_batch_size, seq_len], labels: int64 [local_batch_size,
    seq_len]).

    With ``deal="rows"`` the batches of all ranks together are consecutive rows of one stream, and the state
    is a place in it: the same on every rank, good for any number of ranks and workers and any batch size.

    Raises:
        DataError: see ``open_documents``.
        CheckpointError: on load, when the checkpoint was written with other data (``deal="documents"``: or
            another number of workers or ranks).
    """

    @dataclass(kw_only=True, slots=True)
    class Config(ParallelAwareDataloader.Config):
        dataset: Format = "jsonl"
        """Format of the data: jsonl, parquet, text (one document a file), hf (a Hugging Face set on this
        machine)"""

        text_column: str = "text"
        """Column that holds the text"""

        split: str = "train"
        """Split to read, where the data has several (hf only)"""

        shuffle_seed: int | None = 42
        """Seed of the order of documents, another order each epoch; None reads them in the order of the
        files"""

        infinite: bool = True
        """Whether to start again at the end of the data"""

        deal: Deal = "rows"
        """What data-parallel ranks share out: rows (every rank tokenizes all documents; the data and a resume
        do not depend on the number of ranks) or documents (each rank tokenizes its own; a resume needs the
        same number of ranks and loader workers)"""

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        tokenizer: BaseTokenizer,
        seq_len: int,
        local_batch_size: int,
        snapshot_every_n_steps: int | None = 1,
        **kwargs: Any,
    ) -> None:
        # TorchTitan asks for a snapshot per checkpoint interval; the state between two of them would be
        # recovered by reading batches again. Ours is three integers, so there is one for every batch: exact
        # at any step.
        del snapshot_every_n_steps, kwargs
        documents = open_documents(config.dataset, config.dataset_path, config.text_column, config.split)
        self._deal = config.deal
        self._stream = {"documents": len(documents), "shuffle_seed": config.shuffle_seed}
        super().__init__(
            PackedTextDataset(
                documents,
                config.text_column,
                tokenizer,
                seq_len=seq_len,
                local_batch_size=local_batch_size,
                dp_rank=dp_rank,
                dp_world_size=dp_world_size,
                deal=config.deal,
                shuffle_seed=config.shuffle_seed,
                infinite=config.infinite,
            ),
            dp_rank=dp_rank,
            dp_world_size=dp_world_size,
            batch_size=local_batch_size,
            drop_last=True,
            num_workers=config.num_workers,
            persistent_workers=config.persistent_workers,
            pin_memory=config.pin_memory,
            prefetch_factor=config.prefetch_factor,
            worker_init_fn=ignore_interrupts,
            # Its own: each start of an iterator draws a seed, which would move the trainer's generator on.
            generator=torch.Generator().manual_seed(config.shuffle_seed or 0),
            snapshot_every_n_steps=1,
        )

    def __iter__(self) -> Iterator[Sample]:
        if self._deal == "rows":  # a second iterator goes on behind the first, with workers too
            self._go_to(self._place())
        batches: Iterator[Sample] = super().__iter__()
        return batches

    def state_dict(self) -> dict[str, Any]:
        # DCP keeps a key that several ranks write once: none of these names a rank.
        if self._deal == "rows":
            return {"place": self._place(), **self._stream}
        return {**super().state_dict(), **self._stream, "num_workers": self.num_workers}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not state_dict:
            return
        self._check(state_dict, "documents", self._stream["documents"], "give the same data")
        self._check(
            state_dict, "shuffle_seed", self._stream["shuffle_seed"], "set dataloader.shuffle_seed back"
        )
        if self._deal == "rows":
            self._go_to(state_dict["place"])
            return
        self._check(state_dict, "num_workers", self.num_workers, "set dataloader.num_workers back")
        self._check(state_dict, "world_size", self.dp_world_size, "use the same data-parallel degree")
        super().load_state_dict(state_dict)

    def _check(self, state_dict: dict[str, Any], name: str, now: object, way_out: str) -> None:
        saved = state_dict.get(name, now)
        if saved != now:
            raise CheckpointError(
                f"The checkpoint was written with {name}={saved} in its data loader and this run has {now}, "
                f"so the data cannot continue where it stopped: {way_out}, or start the data again with "
                "checkpoint.exclude_from_loading=[dataloader]."
            )

    def _place(self) -> dict[str, Any]:
        """Where the rows of the batches end that were handed out so far."""
        if self._iterator is None or self.num_workers == 0:
            return self._packed.state_dict()
        # Workers read ahead; this is the state that came with the last batch that was taken.
        snapshot = self._iterator.state_dict()["_snapshot"]
        last = snapshot["_worker_snapshots"][f"worker_{snapshot['_last_yielded_worker_id']}"]
        place: dict[str, Any] = last["dataset_state"]
        return place

    def _go_to(self, place: dict[str, Any]) -> None:
        """Let the next iterator, and new workers with it, start at ``place``."""
        StatefulDataLoader.load_state_dict(self, {})
        self._packed.load_state_dict(place)

    @property
    def _packed(self) -> PackedTextDataset:
        assert isinstance(self.dataset, PackedTextDataset)
        return self.dataset


def ignore_interrupts(worker_id: int) -> None:
    """Ctrl-C reaches the whole process group: the trainer decides what it means, the workers go on serving
    it."""
    del worker_id
    signal.signal(signal.SIGINT, signal.SIG_IGN)
