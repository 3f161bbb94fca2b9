"""`npu ops`, `npu graph` and `npu doctor --smoke`, in process; expected values are CANN's prototypes or NumPy's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from npu_common.cli import app
from npu_common.commands import smoke
from npu_common.graph import Builder, to_model

Npu = Callable[..., Any]


@pytest.fixture
def npu() -> Npu:
    return lambda *arguments: CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = relu(a - b), 2 x 3."""
    g = Builder("difference")
    a, b = (g.input(name, "float32", (2, 3)) for name in "ab")
    g.output(g.add("Relu", g.add("Sub", a, b)))
    file = tmp_path / "model.pb"
    file.write_bytes(to_model(g.graph))
    return file


def refused(done: Any) -> str:
    """The one sentence of a command that could not do what was asked."""
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("npu: ")
    return str(line)


class TestOps:
    def test_one_graph_operator_in_full(self, npu: Npu) -> None:
        (add,) = json.loads(npu("ops", "Add", "--json").stdout)
        assert [port["name"] for port in add["inputs"]] == ["x1", "x2"]
        assert {"float32", "bfloat16", "int64"} <= set(add["inputs"][0]["dtypes"])
        assert add["inferred"] and add["aclnn"]

    def test_attributes(self, npu: Npu) -> None:
        text = npu("ops", "SoftmaxV2").stdout
        assert "attribute axes: ListInt, default [-1]" in text

    def test_one_aclnn_operator_in_full(self, npu: Npu) -> None:
        text = npu("ops", "aclnnSoftmax").stdout
        assert "self: tensor, dim: integer, out: tensor, written" in text and "exported: yes" in text

    def test_filter(self, npu: Npu) -> None:
        found = json.loads(npu("ops", "rmsnorm", "--json").stdout)
        names = {each["name"] for each in [*found["aclnn"], *found["graph"]]}
        assert {"aclnnRmsNorm", "aclnnRmsNormGrad", "RmsNorm", "AddRmsNorm"} <= names
        assert all("rmsnorm" in name.lower() for name in names)

    def test_counts(self, npu: Npu) -> None:
        found = json.loads(npu("ops", "--json").stdout)
        assert len(found["aclnn"]) >= 1249  # facts/README.md
        assert len(found["graph"]) >= 1996

    def test_unknown_with_near_miss(self, npu: Npu) -> None:
        assert "did you mean aclnnSoftmax" in refused(npu("ops", "aclnnSofmax"))


class TestGraph:
    def test_dump(self, npu: Npu, model: Path) -> None:
        text = npu("graph", "dump", model).stdout
        assert "Sub(%a, %b) : float32[2,3]" in text and "Relu(%0)" in text

    @pytest.mark.parametrize(("suffix", "start"), [(".dot", b"digraph {"), (".txt", b"graph @difference(")])
    def test_convert_to_text(self, npu: Npu, model: Path, suffix: str, start: bytes) -> None:
        out = model.with_name("out").with_suffix(suffix)
        assert npu("graph", "convert", model, out).exit_code == 0
        assert out.read_bytes().startswith(start)

    def test_convert_to_the_engine_s_own(self, npu: Npu, model: Path) -> None:
        out = model.with_name("copy.pb")
        assert npu("graph", "convert", model, out).exit_code == 0
        assert npu("graph", "dump", out).stdout == npu("graph", "dump", model).stdout

    def test_convert_to_onnx(self, npu: Npu, model: Path) -> None:
        out = model.with_name("out.onnx")
        assert npu("graph", "convert", model, out).exit_code == 0
        assert b"cann.ge" in out.read_bytes() and b"Relu" in out.read_bytes()

    def test_run_on_files(self, npu: Npu, model: Path, tmp_path: Path) -> None:
        a, b = np.random.default_rng(0).standard_normal((2, 2, 3), dtype=np.float32)
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)
        given = ["--input", f"b={tmp_path / 'b.npy'}", "--input", f"a={tmp_path / 'a.npy'}"]
        done = npu("graph", "run", model, *given, "--executor", "aclnn", "--out", tmp_path / "results")
        assert done.exit_code == 0, done.output
        np.testing.assert_array_equal(np.load(tmp_path / "results" / "output0.npy"), np.maximum(a - b, 0))

    def test_random_inputs_are_the_seed_s(self, npu: Npu, model: Path, tmp_path: Path) -> None:
        for folder, seed in (("one", 3), ("same", 3), ("other", 4)):
            out = tmp_path / folder
            assert (
                npu("graph", "run", model, "--executor", "aclnn", "--seed", seed, "--out", out).exit_code == 0
            )
        one, same, other = (np.load(tmp_path / f / "output0.npy") for f in ("one", "same", "other"))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()

    def test_bfloat16_goes_through_files(self, npu: Npu, tmp_path: Path) -> None:
        g = Builder("twice")
        x = g.input("x", "bfloat16", (4,))
        g.output(g.add("Add", x, x))
        model, file = tmp_path / "model.pb", tmp_path / "x.npy"
        model.write_bytes(to_model(g.graph))
        np.save(file, np.array([0x3F80, 0x4000, 0xBF80, 0], np.uint16).view("V2"))  # 1, 2, -1, 0
        run = ("graph", "run", model, "--input", f"x={file}", "--executor", "aclnn", "--out", tmp_path)
        assert npu(*run).exit_code == 0
        found = np.load(tmp_path / "output0.npy").view(np.uint16)
        np.testing.assert_array_equal(found, [0x4000, 0x4080, 0xC000, 0])  # 2, 4, -2, 0

    def test_what_cannot_be_done_is_one_sentence(self, npu: Npu, model: Path, tmp_path: Path) -> None:
        junk = tmp_path / "junk.npy"
        junk.write_bytes(b"junk")
        np.save(tmp_path / "small.npy", np.zeros(2, np.float32))
        assert "absent.pb cannot be read: No such file" in refused(npu("graph", "dump", "absent.pb"))
        assert "no model of the graph engine" in refused(npu("graph", "dump", junk))
        assert ".dot, .onnx, .txt, .pb" in refused(npu("graph", "convert", model, "out.svg"))
        assert "cannot be read as a .npy" in refused(npu("graph", "run", model, "--input", f"a={junk}"))
        assert "has no input c; it has a, b" in refused(npu("graph", "run", model, "--input", f"c={junk}"))
        assert "not NAME=x.npy" in refused(npu("graph", "run", model, "--input", "a"))
        small = f"a={tmp_path / 'small.npy'}"
        assert "the input b is missing" in refused(npu("graph", "run", model, "--input", small))
        both = ["--input", small, "--input", small.replace("a=", "b=", 1)]
        assert "float32[2]" in refused(npu("graph", "run", model, *both))
        assert "no executor 'cuda'" in refused(npu("graph", "run", model, "--executor", "cuda"))


LAYERS = """
import os, sys, time
match sys.argv[1]:
    case "right": print("noise"); print("fine")
    case "absent": print("not installed"); sys.exit(77)
    case "wrong": raise ValueError("it is wrong")
    case "crash": os.abort()
    case "hang": time.sleep(60)
"""


class TestSmoke:
    def test_each_end_is_a_line_of_the_report(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "some_layers.py").write_text(LAYERS)
        monkeypatch.chdir(tmp_path)  # python -m looks there
        names = ["right", "absent", "wrong", "crash", "hang"]
        results = list(smoke.try_layers(names, module="some_layers", timeout=5))
        assert [each.layer for each in results] == names
        assert [each.status for each in results] == ["right", "absent", "failed", "crashed", "hung"]
        assert [each.is_fault for each in results] == [False, False, True, True, True]
        for each, finding in zip(
            results, ("fine", "not installed", "ValueError: it is wrong", "SIGABRT", "5 s"), strict=True
        ):
            assert finding in each.finding

    @pytest.mark.parametrize(
        "layer", ["device and memory", "streams and events", "aclnn operator", "HCCL", "capture and replay"]
    )
    def test_the_layer_is_right_here(self, layer: str) -> None:
        (result,) = smoke.try_layers([layer])
        assert result.status == "right", result.finding
