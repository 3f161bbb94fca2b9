"""TorchTitan's parallel-aware data loader over local text."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

import torch
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.components.tokenizer import BaseTokenizer

from titan_npu.data.packing import PackedTextDataset
from titan_npu.data.sources import Format, open_documents
from titan_npu.errors import CheckpointError


class LocalTextDataLoader(ParallelAwareDataloader):
    """Batches of packed local text; deterministic and checkpointable with any number of workers.

    Yields ({"input", "positions"}: int64 [local_batch_size, seq_len], labels: int64 [local_batch_size,
    seq_len]).

    Raises:
        DataError: see ``open_documents``.
        CheckpointError: on load, when the checkpoint was written with other data or another number of
            workers.
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
        self._document_count = len(documents)
        self._worker_count = config.num_workers
        super().__init__(
            PackedTextDataset(
                documents,
                config.text_column,
                tokenizer,
                seq_len=seq_len,
                dp_rank=dp_rank,
                dp_world_size=dp_world_size,
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

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "documents": self._document_count, "num_workers": self._worker_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, now, way_out in (
            ("documents", self._document_count, "give the same data"),
            ("num_workers", self._worker_count, "set dataloader.num_workers back"),
            ("world_size", self.dp_world_size, "use the same data-parallel degree"),
        ):
            saved = state_dict.get(name, now)
            if saved != now:
                raise CheckpointError(
                    f"The checkpoint was written with {name}={saved} in its data loader and this run "
                    f"has {now}, so the "
                    f"data cannot continue where it stopped: {way_out}, or start the data again with "
                    "checkpoint.exclude_from_loading=[dataloader]."
                )
        super().load_state_dict(state_dict)


def ignore_interrupts(worker_id: int) -> None:
    """Ctrl-C reaches the whole process group: the trainer decides what it means, the workers go on serving
    it."""
    del worker_id
    signal.signal(signal.SIGINT, signal.SIG_IGN)
