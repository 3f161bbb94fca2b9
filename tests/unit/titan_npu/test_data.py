"""Local data: every format, packing, and a place in the stream that a checkpoint brings back."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from datasets import Dataset, DatasetDict
from torchtitan.components.tokenizer import HuggingFaceTokenizer

from titan_npu.data.loader import LocalTextDataLoader
from titan_npu.data.packing import PackedTextDataset
from titan_npu.data.prepare import prepare
from titan_npu.data.sources import open_documents
from titan_npu.errors import CheckpointError, DataError

TEXTS = ["the first\ndocument", "a second one", "and the third: ä€"]
SEQ_LEN = 32

Batch = tuple[dict[str, torch.Tensor], torch.Tensor]


@pytest.fixture(scope="module")
def tokenizer(prepared: Path) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(tokenizer_path=str(prepared / "tokenizer"))


def loader(prepared: Path, tokenizer: HuggingFaceTokenizer, **settings: Any) -> LocalTextDataLoader:
    batch = settings.pop("local_batch_size", 2)
    rank = {"dp_rank": settings.pop("dp_rank", 0), "dp_world_size": settings.pop("dp_world_size", 1)}
    config = LocalTextDataLoader.Config(dataset_path=str(prepared / "train.jsonl"), **settings)
    return config.build(tokenizer=tokenizer, seq_len=SEQ_LEN, local_batch_size=batch, **rank)


def flat(batch: Batch) -> list[list[int]]:
    inputs, labels = batch
    return [
        inputs["input"].flatten().tolist(),
        inputs["positions"].flatten().tolist(),
        labels.flatten().tolist(),
    ]


def rows_of(batch: Batch) -> list[list[list[int]]]:
    """The rows of a batch, each as ``flat`` gives a batch of one."""
    inputs, labels = batch
    columns = (inputs["input"].tolist(), inputs["positions"].tolist(), labels.tolist())
    return [list(row) for row in zip(*columns, strict=True)]


class TestFormats:
    def test_jsonl(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t, "n": 1}) + "\n" for t in TEXTS))
        for path in (tmp_path / "a.jsonl", tmp_path, tmp_path / "*.jsonl"):
            assert open_documents("jsonl", str(path), "text")["text"][:] == TEXTS

    def test_parquet(self, tmp_path: Path) -> None:
        pa.parquet.write_table(pa.table({"body": TEXTS}), tmp_path / "a.parquet")
        assert open_documents("parquet", str(tmp_path), "body")["body"][:] == TEXTS

    def test_text_is_one_document_a_file(self, tmp_path: Path) -> None:
        for number, text in enumerate(TEXTS):
            (tmp_path / f"{number}.txt").write_text(text)
        assert open_documents("text", str(tmp_path), "text")["text"][:] == TEXTS

    def test_saved_hugging_face_set(self, tmp_path: Path) -> None:
        Dataset.from_dict({"text": TEXTS}).save_to_disk(str(tmp_path / "one"))
        assert open_documents("hf", str(tmp_path / "one"), "text")["text"][:] == TEXTS
        splits = DatasetDict(
            train=Dataset.from_dict({"text": ["x"]}), test=Dataset.from_dict({"text": TEXTS})
        )
        splits.save_to_disk(str(tmp_path / "two"))
        assert open_documents("hf", str(tmp_path / "two"), "text", split="test")["text"][:] == TEXTS
        with pytest.raises(DataError, match=r"has the splits train, test, not 'dev': set dataloader.split"):
            open_documents("hf", str(tmp_path / "two"), "text", split="dev")

    def test_refusals(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('{"body": "x"}\n')
        (tmp_path / "b.jsonl").write_text("no JSON\n")
        for form, path, said in (
            ("jsonl", None, "No data set was named"),
            ("jsonl", tmp_path / "none.jsonl", "There is no data at"),
            ("parquet", tmp_path, "has no parquet files"),
            ("hf", "allenai/c4", "only data sets on this machine"),
            ("jsonl", tmp_path / "a.jsonl", "has no column 'text' but body: set dataloader.text_column"),
            ("jsonl", tmp_path / "b.jsonl", "cannot be read as jsonl"),
        ):
            with pytest.raises(DataError, match=said):
                open_documents(form, None if path is None else str(path), "text")


class TestPacking:
    @pytest.fixture
    def documents(self) -> Dataset:
        return Dataset.from_dict({"text": [f"text number {n}, " * (n % 5 + 1) for n in range(20)]})

    def pack(self, documents: Dataset, tokenizer: HuggingFaceTokenizer, **settings: Any) -> PackedTextDataset:
        return PackedTextDataset(documents, "text", tokenizer, seq_len=SEQ_LEN, **settings)

    def test_rows_are_the_documents_tokens_in_order(
        self, documents: Dataset, tokenizer: HuggingFaceTokenizer
    ) -> None:
        """Against the definition: each document's tokens but the last in, shifted by one as labels."""
        inputs, labels, positions = [], [], []
        for text in documents["text"]:
            tokens = [tokenizer.bos_id, *tokenizer.tokenizer.encode(text, add_special_tokens=False).ids]
            tokens.append(tokenizer.eos_id)
            for place, (token, following) in enumerate(itertools.pairwise(tokens)):
                inputs.append(token)
                labels.append(following)
                new_row = (len(inputs) - 1) % SEQ_LEN == 0
                positions.append(0 if place == 0 or new_row else positions[-1] + 1)
        whole = len(inputs) // SEQ_LEN * SEQ_LEN
        rows = [flat(row) for row in self.pack(documents, tokenizer, infinite=False)]
        assert len(rows) * SEQ_LEN == whole
        for column, expected in enumerate((inputs, positions, labels)):
            assert [value for row in rows for value in row[column]] == expected[:whole]

    def test_every_epoch_in_another_order(self, documents: Dataset, tokenizer: HuggingFaceTokenizer) -> None:
        packed = self.pack(documents, tokenizer, shuffle_seed=1)
        orders = [packed._order(epoch).tolist() for epoch in range(2)]
        assert orders[0] != orders[1] and all(sorted(order) == list(range(20)) for order in orders)

    def test_ranks_share_the_documents(self, documents: Dataset, tokenizer: HuggingFaceTokenizer) -> None:
        """deal=documents: every token of the epoch is some rank's, but for what each leaves in its last row."""

        def tokens(**settings: Any) -> list[int]:
            rows = self.pack(documents, tokenizer, shuffle_seed=1, infinite=False, **settings)
            return [token for row in rows for token in flat(row)[0]]

        ranks = [tokens(deal="documents", dp_rank=rank, dp_world_size=3) for rank in range(3)]
        whole = tokens()
        assert len(whole) - 3 * SEQ_LEN < sum(map(len, ranks)) <= len(whole) + SEQ_LEN
        assert whole.count(tokenizer.bos_id) - 6 < sum(rank.count(tokenizer.bos_id) for rank in ranks)
        assert all(tokens(deal="documents", dp_rank=r, dp_world_size=3) == ranks[r] for r in range(3))

    def test_more_readers_than_documents(self, tokenizer: HuggingFaceTokenizer) -> None:
        documents = Dataset.from_dict({"text": ["some words " * 50]})
        packed = self.pack(documents, tokenizer, deal="documents", dp_world_size=2)
        with pytest.raises(DataError, match=r"1 documents cannot feed 2 readers .*dataloader.deal=rows"):
            next(iter(packed))
        rows = self.pack(documents, tokenizer, dp_rank=1, dp_world_size=2)  # rows can always be dealt
        assert len(list(itertools.islice(rows, 3))) == 3

    def test_documents_too_short_for_a_token_never_hang(self, tokenizer: HuggingFaceTokenizer) -> None:
        packed = self.pack(Dataset.from_dict({"text": ["", ""]}), tokenizer)
        with pytest.raises(DataError, match="no text"):
            next(iter(packed))


class TestLoader:
    def test_shapes(self, prepared: Path, tokenizer: HuggingFaceTokenizer) -> None:
        inputs, labels = next(iter(loader(prepared, tokenizer, local_batch_size=3)))
        for tensor in (inputs["input"], inputs["positions"], labels):
            assert tensor.shape == (3, SEQ_LEN) and tensor.dtype == torch.int64
        assert (inputs["positions"][:, 0] == 0).all()

    @pytest.mark.parametrize("workers", [0, 2])
    def test_resume_at_any_batch(
        self, workers: int, prepared: Path, tokenizer: HuggingFaceTokenizer, tmp_path: Path
    ) -> None:
        """Batches after each resume are the uninterrupted run's, over the ends of epochs too."""

        def take(iterator: Iterator[Batch], count: int) -> list[list[list[int]]]:
            return [flat(batch) for batch in itertools.islice(iterator, count)]

        texts = (prepared / "train.jsonl").read_text().splitlines(keepends=True)[:12]
        (tmp_path / "train.jsonl").write_text("".join(texts))
        make = lambda: loader(tmp_path, tokenizer, num_workers=workers, local_batch_size=8)  # noqa: E731
        count = 40
        whole = take(iter(make()), count)
        assert whole == take(iter(make()), count)  # deterministic
        state: dict[str, Any] = {}
        parts = []
        for step in (1, 13, count - 14):
            resumed = make()
            resumed.load_state_dict(state)
            parts += take(iter(resumed), step)
            state = resumed.state_dict()
        assert parts == whole
        assert count * 8 * SEQ_LEN > sum(map(len, texts))  # fewer tokens than characters: an epoch did end

    def test_generators_of_the_process_are_left_alone(
        self, prepared: Path, tokenizer: HuggingFaceTokenizer
    ) -> None:
        """Starting to read, which a resumed run does once more, draws nothing that training draws."""
        before = torch.get_rng_state()
        next(iter(loader(prepared, tokenizer)))
        assert torch.equal(torch.get_rng_state(), before)

    def test_state_of_other_data_is_refused(
        self, prepared: Path, tokenizer: HuggingFaceTokenizer, tmp_path: Path
    ) -> None:
        state = loader(prepared, tokenizer).state_dict()
        with pytest.raises(CheckpointError, match=r"shuffle_seed=42 .* this run has 7"):
            loader(prepared, tokenizer, shuffle_seed=7).load_state_dict(state)
        (tmp_path / "train.jsonl").write_text('{"text": "another"}\n')
        with pytest.raises(CheckpointError, match=r"documents=\d+ .* this run has 1.*give the same data"):
            loader(tmp_path, tokenizer).load_state_dict(state)

    def test_dealt_documents_need_the_same_readers(
        self, prepared: Path, tokenizer: HuggingFaceTokenizer
    ) -> None:
        make = functools.partial(loader, prepared, tokenizer, deal="documents")
        state = make().state_dict()
        with pytest.raises(CheckpointError, match=r"num_workers=0 .* this run has 1.*dataloader.num_workers"):
            make(num_workers=1).load_state_dict(state)
        with pytest.raises(CheckpointError, match=r"world_size=1 .* this run has 2"):
            make(dp_world_size=2).load_state_dict(state)


class TestLayouts:
    """deal=rows: after so many rows exactly the first so many of the stream are used, whatever the layout."""

    SEEN = 72
    """Rows: a multiple of every group below, and more than an epoch."""

    @pytest.fixture
    def corpus(self, prepared: Path, tmp_path: Path) -> Path:
        """Few documents, all longer than a row or straddling the end of one."""
        texts = (prepared / "train.jsonl").read_text().splitlines(keepends=True)[:9]
        (tmp_path / "train.jsonl").write_text("".join(texts))
        return tmp_path

    @pytest.fixture
    def stream(self, corpus: Path, tokenizer: HuggingFaceTokenizer) -> list[list[list[int]]]:
        """The rows of one rank, one at a time, as the others must be."""
        return [flat(row) for row in itertools.islice(loader(corpus, tokenizer, local_batch_size=1), 144)]

    @staticmethod
    def used(ranks: list[LocalTextDataLoader], rows: int) -> list[list[list[int]]]:
        """The next ``rows`` rows of all ranks' batches, in the stream's order."""
        batch_size = ranks[0].batch_size
        assert batch_size is not None and rows % (len(ranks) * batch_size) == 0
        taken = [[rows_of(batch) for batch in itertools.islice(rank, rows // len(ranks) // batch_size)]
                 for rank in ranks]  # fmt: skip
        of_rank = [list(itertools.chain(*batches)) for batches in taken]
        return list(itertools.chain(*zip(*of_rank, strict=True)))

    @staticmethod
    def ranks(corpus: Path, tokenizer: HuggingFaceTokenizer, dp: int, **settings: Any) -> list[Any]:
        return [loader(corpus, tokenizer, dp_rank=rank, dp_world_size=dp, **settings) for rank in range(dp)]

    @pytest.mark.parametrize(
        ("dp", "batch_size", "workers"),
        [(1, 4, 0), (2, 1, 0), (2, 3, 0), (3, 2, 0), (4, 3, 0), (1, 4, 2), (2, 3, 1), (2, 3, 2), (3, 2, 2)],
    )
    def test_ranks_together_are_one_rank(
        self, dp: int, batch_size: int, workers: int, corpus: Path, tokenizer: HuggingFaceTokenizer,
        stream: list[list[list[int]]],
    ) -> None:  # fmt: skip
        ranks = self.ranks(corpus, tokenizer, dp, local_batch_size=batch_size, num_workers=workers)
        assert self.used(ranks, self.SEEN) == stream[: self.SEEN]
        states = [rank.state_dict() for rank in ranks]
        assert all(state == states[0] for state in states)
        one = loader(corpus, tokenizer, local_batch_size=1)
        self.used([one], self.SEEN)
        assert one.state_dict() == states[0]  # the place says nothing of the layout

    @pytest.mark.parametrize("before", [(2, 3, 0), (2, 3, 2), (1, 4, 0)])
    @pytest.mark.parametrize("after", [(1, 8, 0), (4, 2, 0), (3, 1, 2), (2, 3, 1)])
    def test_go_on_in_another_layout(
        self, before: tuple[int, int, int], after: tuple[int, int, int], corpus: Path,
        tokenizer: HuggingFaceTokenizer, stream: list[list[list[int]]],
    ) -> None:  # fmt: skip
        def make(layout: tuple[int, int, int]) -> list[Any]:
            dp, batch_size, workers = layout
            return self.ranks(corpus, tokenizer, dp, local_batch_size=batch_size, num_workers=workers)

        first = make(before)
        self.used(first, 24)
        second = make(after)
        for rank in second:
            rank.state_dict()  # DCP asks for the names before it loads
            rank.load_state_dict(first[-1].state_dict())
        assert self.used(second, 48) == stream[24:72]

    def test_state_names_no_rank(self, corpus: Path, tokenizer: HuggingFaceTokenizer) -> None:
        (rank,) = self.ranks(corpus, tokenizer, 3)[2:]
        place = {"epoch": 0, "document": 0, "token": 0}
        assert rank.state_dict() == {"place": place, "documents": 9, "shuffle_seed": 42}

    @pytest.mark.parametrize("workers", [0, 1])
    def test_a_second_iterator_goes_on(
        self, workers: int, corpus: Path, tokenizer: HuggingFaceTokenizer, stream: list[list[list[int]]]
    ) -> None:
        ranks = self.ranks(corpus, tokenizer, 1, local_batch_size=2, num_workers=workers)
        assert self.used(ranks, 6) + self.used(ranks, 6) == stream[:12]

    @pytest.mark.parametrize("workers", [0, 2])
    def test_the_data_end_for_all_ranks_at_once(
        self, workers: int, corpus: Path, tokenizer: HuggingFaceTokenizer
    ) -> None:
        rows = len(list(loader(corpus, tokenizer, local_batch_size=1, infinite=False)))
        for dp, batch_size in ((2, 1), (3, 1), (2, 3), (4, 2)):
            ranks = self.ranks(
                corpus, tokenizer, dp, local_batch_size=batch_size, infinite=False, num_workers=workers
            )
            assert [len(list(rank)) for rank in ranks] == [rows // (dp * batch_size)] * dp


class TestPrepare:
    def test_same_bytes_every_time(self, sources: Path, prepared: Path, tmp_path: Path) -> None:
        again = prepare(tmp_path / "again", 300, source=sources).folder
        names = sorted(str(path.relative_to(prepared)) for path in prepared.rglob("*") if path.is_file())
        assert names == [
            "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json", "train.jsonl", "validation.jsonl",
        ]  # fmt: skip
        for name in names:
            assert (again / name).read_bytes() == (prepared / name).read_bytes(), name

    def test_documents_are_the_sources_and_their_docstrings(self, sources: Path, prepared: Path) -> None:
        made: dict[str, str] = {}
        modules: dict[str, set[str]] = {}
        for split in ("train", "validation"):
            for line in (prepared / f"{split}.jsonl").read_text().splitlines():
                document = json.loads(line)
                made[document["source"]] = document["text"]
                modules.setdefault(document["source"].replace(":", "#").split("#")[0], set()).add(split)
        assert all(len(splits) == 1 for splits in modules.values())  # no module is in both splits
        assert len(modules) == 60
        for number in (0, 7, 59):
            source = (sources / f"module{number}.py").read_text()
            assert made[f"module{number}#0"] == source
            assert made[f"module{number}:function_{number}"] in source

    def test_tokenizer_writes_down_any_text(self, tokenizer: HuggingFaceTokenizer) -> None:
        assert tokenizer.get_vocab_size() == 300
        for text in TEXTS:
            tokens = tokenizer.encode(text, add_bos=True, add_eos=True)
            assert (tokens[0], tokens[-1]) == (tokenizer.bos_id, tokenizer.eos_id)
            assert tokenizer.decode(tokens[1:-1]) == text

    def test_refusals(self, sources: Path, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"--vocab-size 100 is too small.* 259"):
            prepare(tmp_path / "x", 100, source=sources)
        with pytest.raises(DataError, match="--vocab-size 100000 is more than this corpus can fill"):
            prepare(tmp_path / "x", 100_000, source=sources)
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match=r"Cannot write to .*--out"):
            prepare(tmp_path / "file" / "x", source=sources)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]  # nothing half made
