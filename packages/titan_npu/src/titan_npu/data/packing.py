"""Packing documents into rows of tokens with per-document positions, as TorchTitan's text data set does.

The state is a place in the stream (epoch, document, token), not a buffer: small, and exact because tokenizing
and shuffling are deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from datasets import Dataset
from torch.distributed.checkpoint.stateful import Stateful
from torch.utils.data import IterableDataset, get_worker_info
from torchtitan.components.tokenizer import BaseTokenizer

from titan_npu.errors import DataError

Sample = tuple[dict[str, torch.Tensor], torch.Tensor]

Deal = Literal["rows", "documents"]
"""What is dealt out to the data-parallel ranks: the packed rows, or the documents before packing."""


@dataclass(frozen=True, slots=True)
class Place:
    """Between two tokens of the stream: the epoch, the number of the document in this reader's order of the
    epoch, and the tokens of that document that are already out."""

    epoch: int = 0
    document: int = 0
    token: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One full row: inputs, labels and positions, each seq_len long; ``end`` is the place behind it."""

    inputs: list[int]
    labels: list[int]
    positions: list[int]
    end: Place

    def sample(self) -> Sample:
        inputs = {"input": torch.tensor(self.inputs), "positions": torch.tensor(self.positions)}
        return inputs, torch.tensor(self.labels)


class PackedTextDataset(IterableDataset, Stateful):
    """Rows of packed documents, endless or for one pass.

    Yields ({"input": int64 [seq_len], "positions": int64 [seq_len]}, labels int64 [seq_len]). Labels are the
    next token within the same document; positions start at 0 with each document and with each row, which is
    what marks a document's boundary to the attention (a document that is cut at the end of a row continues as
    a new one).

    ``deal`` says how data-parallel ranks share the data. With "rows" all of them pack the same stream and of
    every ``dp_world_size`` rows rank r yields the r-th: which rows are used up after so many does not depend
    on the number of ranks, and neither does the state. With "documents" each rank (and each of its loader
    workers) packs every n-th document of the epoch's order: it tokenizes only those, and its state means
    nothing to another number of ranks or workers.

    Loader workers share a rank's rows by whole batches of ``local_batch_size``, in turn, which is the order
    in which the loader asks them.

    Raises:
        DataError: there are fewer documents than readers, or no text in them.
    """

    def __init__(
        self,
        documents: Dataset,
        text_column: str,
        tokenizer: BaseTokenizer,
        *,
        seq_len: int,
        local_batch_size: int = 1,
        dp_rank: int = 0,
        dp_world_size: int = 1,
        deal: Deal = "rows",
        shuffle_seed: int | None = None,
        infinite: bool = True,
    ) -> None:
        super().__init__()
        self._documents = documents
        self._text_column = text_column
        self._tokenizer = tokenizer
        self._seq_len = seq_len
        self._local_batch_size = local_batch_size
        self._dp_rank = dp_rank
        self._dp_world_size = dp_world_size
        self._deal = deal
        self._shuffle_seed = shuffle_seed
        self._infinite = infinite
        self._place = Place()

    def __iter__(self) -> Iterator[Sample]:
        for row, end in self._dealt_rows() if self._deal == "rows" else self._dealt_documents():
            self._place = end  # before the yield: behind it the loader may have asked already
            yield row.sample()

    def _dealt_rows(self) -> Iterator[tuple[Row, Place]]:
        """This rank's and worker's rows, each with the end of the group of rows that it was dealt from."""
        workers, worker = _workers()
        own: Row | None = None
        for number, row in enumerate(self._pack(0, 1)):
            group, rank = divmod(number, self._dp_world_size)
            if rank == self._dp_rank:
                own = row
            # Only a whole group is dealt, so that the data ends for all ranks at once and none waits.
            if rank == self._dp_world_size - 1 and group // self._local_batch_size % workers == worker:
                assert own is not None
                yield own, row.end

    def _dealt_documents(self) -> Iterator[tuple[Row, Place]]:
        workers, worker = _workers()
        readers = self._dp_world_size * workers
        if len(self._documents) < readers:
            raise DataError(
                f"{len(self._documents)} documents cannot feed {readers} readers ({self._dp_world_size} "
                f"data-parallel ranks with {workers} loader workers each): use fewer of them or more "
                "documents, or set dataloader.deal=rows."
            )
        for row in self._pack(self._dp_rank * workers + worker, readers):
            yield row, row.end

    def _pack(self, reader: int, readers: int) -> Iterator[Row]:
        """Every ``readers``-th document from the ``reader``-th on, packed, from the present place on."""
        inputs: list[int] = []
        labels: list[int] = []
        positions: list[int] = []
        epoch, document, token = self._place.epoch, self._place.document, self._place.token
        while True:
            share = self._order(epoch)[reader::readers]
            empty = document == token == 0  # until a token of this epoch is seen
            while document < len(share):
                tokens = self._encode(int(share[document]))
                while token < len(tokens) - 1:
                    empty = False
                    end = min(token + self._seq_len - len(inputs), len(tokens) - 1)
                    inputs += tokens[token:end]
                    labels += tokens[token + 1 : end + 1]
                    positions += range(end - token)
                    token = end
                    if len(inputs) == self._seq_len:
                        yield Row(inputs, labels, positions, Place(epoch, document, token))
                        inputs, labels, positions = [], [], []
                document, token = document + 1, 0
            if not self._infinite:
                return
            if empty:
                raise DataError("The documents have no text: there is nothing to train on.")
            epoch, document = epoch + 1, 0

    def _order(self, epoch: int) -> torch.Tensor:
        """All document numbers in the reading order of ``epoch`` (int64)."""
        count = len(self._documents)
        if self._shuffle_seed is None:
            return torch.arange(count)
        return torch.randperm(count, generator=torch.Generator().manual_seed(self._shuffle_seed + epoch))

    def _encode(self, index: int) -> list[int]:
        text = self._documents[index][self._text_column]
        return self._tokenizer.encode(text, add_bos=True, add_eos=True) if text else []

    def state_dict(self) -> dict[str, Any]:
        """The place where reading goes on. Exact only between rows, which is where the loader asks."""
        return asdict(self._place)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._place = Place(**state_dict)


def _workers() -> tuple[int, int]:
    """How many loader workers there are, and which of them this process is (1, 0 without workers)."""
    worker = get_worker_info()
    return (worker.num_workers, worker.id) if worker else (1, 0)
