"""Pins, and whether torch and torch_npu fit together, read without importing either."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from npu_common import versions

REPOSITORY = Path(__file__).parents[3]


def test_pins_are_those_of_the_one_file() -> None:
    stated = [
        line for line in (REPOSITORY / "versions/constraints.txt").read_text().splitlines() if "==" in line
    ]
    assert {f"{name}=={version}" for name, version in versions.pinned().items()} == set(stated)
    assert versions.pinned()["torch-npu"] == "2.13.0"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.13.0+cpu", ("2", "13", "0")), ("2.13.0.post2", ("2", "13", "0")), ("2.9.1rc1", ("2", "9", "1"))],
)
def test_release(version: str, expected: tuple[str, ...]) -> None:
    assert versions.release(version) == expected


@pytest.mark.parametrize(
    ("torch", "torch_npu", "cuda", "words"),
    [
        ("2.13.0+cpu", "2.13.0", "None", None),
        ("2.13.0", "2.13.0.post1", "None", None),
        ("2.13.0+cpu", None, "None", None),
        ("2.13.0+cpu", "2.12.0", "None", ["torch_npu 2.12.0", "torch 2.12.0", "torch_npu==2.13.0"]),
        ("2.13.0+cu130", "2.13.0", "'13.0'", ["CUDA 13.0", "torch_npu refuses", "torch==2.13.0"]),
    ],
)
def test_mismatch(
    torch: str,
    torch_npu: str | None,
    cuda: str,
    words: list[str] | None,
    make_torch: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = make_torch(torch=torch, torch_npu=torch_npu, cuda=cuda)
    for name in [name for name in sys.modules if name.split(".")[0] in ("torch", "torch_npu")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(site)])
    sentence = versions.torch_npu_mismatch()
    if words is None:
        assert sentence is None
    else:
        assert sentence is not None and all(word in sentence for word in words)
