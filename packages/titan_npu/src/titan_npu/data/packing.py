"""Packing documents into rows of tokens with per-document positions, as TorchTitan's text data set does.

The state is a place in the stream (epoch, document, token), not a buffer: small, and exact because tokenizing
and shuffling are deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from datasets import Dataset
from torch.distributed.checkpoint.stateful import Stateful
from torch.utils.data import IterableDataset, get_worker_info
from torchtitan.components.tokenizer import BaseTokenizer

from titan_npu.errors import DataError

Sample = tuple[dict[str, torch.Tensor], torch.Tensor]


class PackedTextDataset(IterableDataset, Stateful):
    """Rows of packed documents, endless or for one pass.

    Yields ({"input": int64 [seq_len], "positions": int64 [seq_len]}, labels int64 [seq_len]). Labels are the
    next token within the same document; positions start at 0 with each document and with each row, which is
    what marks a document's boundary to the attention (a document that is cut at the end of a row continues as
    a new one).

    Each data-parallel rank and each of its loader workers reads every n-th document of the epoch's order.

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
        dp_rank: int = 0,
        dp_world_size: int = 1,
        shuffle_seed: int | None = None,
        infinite: bool = True,
    ) -> None:
        super().__init__()
        self._documents = documents
        self._text_column = text_column
        self._tokenizer = tokenizer
        self._seq_len = seq_len
        self._dp_rank = dp_rank
        self._dp_world_size = dp_world_size
        self._shuffle_seed = shuffle_seed
        self._infinite = infinite
        self._epoch = 0
        self._document = 0  # place in this reader's share of the epoch
        self._token = 0  # tokens of that document that are already out

    def __iter__(self) -> Iterator[Sample]:
        inputs: list[int] = []
        labels: list[int] = []
        positions: list[int] = []
        while True:
            share = self._share()
            empty = self._document == self._token == 0  # until a token of this epoch is seen
            while self._document < len(share):
                tokens = self._encode(int(share[self._document]))
                while self._token < len(tokens) - 1:
                    empty = False
                    start = self._token
                    end = min(start + self._seq_len - len(inputs), len(tokens) - 1)
                    inputs += tokens[start:end]
                    labels += tokens[start + 1 : end + 1]
                    positions += range(end - start)
                    self._token = end
                    if len(inputs) == self._seq_len:
                        row = (
                            {"input": torch.tensor(inputs), "positions": torch.tensor(positions)},
                            torch.tensor(labels),
                        )
                        inputs, labels, positions = [], [], []
                        yield row
                self._document += 1
                self._token = 0
            if not self._infinite:
                return
            if empty:
                raise DataError("The documents have no text: there is nothing to train on.")
            self._epoch += 1
            self._document = 0

    def _share(self) -> torch.Tensor:
        """Document numbers of this rank and worker in the current epoch, in reading order (int64)."""
        worker = get_worker_info()
        workers, worker_id = (worker.num_workers, worker.id) if worker else (1, 0)
        readers, reader = self._dp_world_size * workers, self._dp_rank * workers + worker_id
        count = len(self._documents)
        if count < readers:
            raise DataError(
                f"{count} documents cannot feed {readers} readers ({self._dp_world_size} data-parallel "
                f"ranks with "
                f"{workers} loader workers each): use fewer of them or more documents."
            )
        if self._shuffle_seed is None:
            order = torch.arange(count)
        else:
            order = torch.randperm(
                count, generator=torch.Generator().manual_seed(self._shuffle_seed + self._epoch)
            )
        return order[reader::readers]

    def _encode(self, index: int) -> list[int]:
        text = self._documents[index][self._text_column]
        return self._tokenizer.encode(text, add_bos=True, add_eos=True) if text else []

    def state_dict(self) -> dict[str, Any]:
        """The place of the next row. Exact only between rows, which is where the loader asks."""
        return {"epoch": self._epoch, "document": self._document, "token": self._token}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._epoch = state_dict["epoch"]
        self._document = state_dict["document"]
        self._token = state_dict["token"]
