"""Opening local text (JSON lines, Parquet, plain text, saved Hugging Face sets) as a ``datasets.Dataset``."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Literal

from datasets import Dataset, DatasetDict, load_dataset, load_from_disk

from titan_npu.errors import DataError

Format = Literal["jsonl", "parquet", "text", "hf"]

_LOADERS = {"jsonl": "json", "parquet": "parquet", "text": "text"}
_SUFFIXES = {
    "jsonl": (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst"),
    "parquet": (".parquet", ".pq"),
    "text": (".txt", ".md", ".text", ".rst"),
}

_HOW = (
    "Run titan-npu data prepare for a small corpus, "
    "or set dataloader.dataset_path to a file, folder or glob of yours."
)


def open_documents(form: Format, path: str | None, text_column: str, split: str = "train") -> Dataset:
    """The documents at ``path``, one a row with a string column ``text_column``.

    Args:
        form: "jsonl", "parquet", "text" (one document a file) or "hf" (a folder of ``save_to_disk``, or a
            data set folder that ``datasets.load_dataset`` reads). path: file, folder or glob on this machine.
            text_column: column that holds the text ("text" for plain text files). split: split to take where
            the data has several ("hf" only).

    Raises:
        DataError: nothing there, not readable in this format, no such column, or no documents.
    """
    if not path:
        raise DataError(f"No data set was named. {_HOW}")
    try:
        data = _open_hf(path, split) if form == "hf" else _open_files(form, path)
    except DataError:
        raise
    except Exception as error:  # datasets raises its own and pyarrow's errors, whose first line says enough
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise DataError(f"The data at {path} cannot be read as {form}: {reason}") from error
    if text_column not in data.column_names:
        raise DataError(
            f"The data at {path} has no column {text_column!r} but {', '.join(data.column_names)}: "
            "set dataloader.text_column."
        )
    if len(data) == 0:
        raise DataError(f"The data at {path} has no documents.")
    return data.select_columns([text_column])


def find_files(form: str, path: str) -> list[str]:
    """The data files that ``path`` (file, folder or glob) names, sorted. Raises DataError when there are
    none."""
    place = Path(path).expanduser()
    if place.is_file():
        return [str(place)]
    if place.is_dir():
        files = [str(file) for file in sorted(place.rglob("*")) if file.name.endswith(_SUFFIXES[form])]
        if not files:
            raise DataError(f"The folder {path} has no {form} files ({', '.join(_SUFFIXES[form])}). {_HOW}")
        return files
    files = sorted(glob.glob(str(place), recursive=True))  # noqa: PTH207 (absolute patterns too)
    if not files:
        raise DataError(f"There is no data at {path}. {_HOW}")
    return files


def _open_files(form: str, path: str) -> Dataset:
    extra = {"sample_by": "document"} if form == "text" else {}
    return load_dataset(_LOADERS[form], data_files=find_files(form, path), split="train", **extra)


def _open_hf(path: str, split: str) -> Dataset:
    place = Path(path).expanduser()
    if not place.exists():
        raise DataError(f"There is no data set at {path} (only data sets on this machine are read). {_HOW}")
    saved = (place / "state.json").is_file() or (place / "dataset_dict.json").is_file()
    data = load_from_disk(str(place)) if saved else load_dataset(str(place))
    if isinstance(data, DatasetDict):
        if split not in data:
            raise DataError(
                f"The data set at {path} has the splits {', '.join(data)}, not {split!r}: set "
                f"dataloader.split."
            )
        data = data[split]
    return data
