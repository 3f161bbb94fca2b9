"""Local data: every format, packing, and a place in the stream that a checkpoint brings back."""

from __future__ import annotations

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
        orders = []
        for epoch in range(2):
            packed.load_state_dict({"epoch": epoch, "document": 0, "token": 0})
            orders.append(packed._share().tolist())
        assert orders[0] != orders[1] and all(sorted(order) == list(range(20)) for order in orders)

    def test_ranks_share_the_documents(self, documents: Dataset, tokenizer: HuggingFaceTokenizer) -> None:
        shares = [
            self.pack(documents, tokenizer, shuffle_seed=1, dp_rank=rank, dp_world_size=3)._share().tolist()
            for rank in range(3)
        ]
        assert sorted(itertools.chain(*shares)) == list(range(20))

    def test_more_readers_than_documents(self, tokenizer: HuggingFaceTokenizer) -> None:
        packed = self.pack(Dataset.from_dict({"text": ["x"]}), tokenizer, dp_world_size=2)
        with pytest.raises(DataError, match="1 documents cannot feed 2 readers"):
            next(iter(packed))

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
        with pytest.raises(CheckpointError, match=r"num_workers=0 .* this run has 1.*dataloader.num_workers"):
            loader(prepared, tokenizer, num_workers=1).load_state_dict(state)
        with pytest.raises(CheckpointError, match=r"world_size=1 .* this run has 2"):
            loader(prepared, tokenizer, dp_world_size=2).load_state_dict(state)
        (tmp_path / "train.jsonl").write_text('{"text": "another"}\n')
        with pytest.raises(CheckpointError, match=r"documents=\d+ .* this run has 1.*give the same data"):
            loader(tmp_path, tokenizer).load_state_dict(state)


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
