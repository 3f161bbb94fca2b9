"""torch.compile with torchair, the graph compiler in the torch_npu wheel: equal to eager npu, by both doors it has to GE.

torchair takes GeSessionLoadGraph and GeSessionExecuteGraphWithStreamAsync (on gert::Tensor) where it finds them, and
ge::Session::RunGraphWithStreamAsync (on ge::Tensor) where not: for the second door the names are not in the library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npu_common import toolkit

pytestmark = pytest.mark.slow

FORWARD = [
    f"{model}-{dtype}-{shapes}-forward"
    for model in ("mlp", "llama", "cnn")
    for dtype in ("float32", "bfloat16")
    for shapes in ("static", "dynamic")
]
TRAIN = [f"{model}-float32-static-train" for model in ("mlp", "llama", "cnn")]
TRAIN += ["mlp-float32-dynamic-train", "llama-float32-dynamic-train", "llama-bfloat16-static-train"]
CASES = [*FORWARD, *TRAIN, "decode-float32", "decode-bfloat16"]
# Eager npu computes the same operators; a graph may take another one for the same formula, which rounds elsewhere: two
# units in the last place of bfloat16's 8 bits, of the largest element.
BOUNDS = {"float32": 1e-5, "bfloat16": 2**-6}
ROOT = Path(__file__).parents[2]


def without_functions(cann: Path, folder: Path) -> Path:
    """A toolkit whose libge_runner has other names in the place of the functions over gert::Tensor."""
    copy = folder / "cann"
    shutil.copytree(cann, copy, symlinks=True)
    library = copy / "lib64" / "libge_runner.so"
    renamed = library.read_bytes()
    for name in (b"GeSessionLoadGraph\0", b"GeSessionExecuteGraphWithStreamAsync\0"):
        assert name in renamed
        renamed = renamed.replace(name, b"X" + name[1:])
    library.write_bytes(renamed)
    return copy


@pytest.fixture(scope="module", params=["gert", "session"])
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, object]]:
    cann = toolkit.find().root
    if request.param == "session":
        cann = without_functions(cann, tmp_path_factory.mktemp("door"))
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.torchair", *CASES],
        cwd=ROOT,
        env=os.environ | {"ASCEND_HOME_PATH": str(cann)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["case"]: line for line in lines}


@pytest.mark.parametrize("case", CASES)
def test_equals_eager(results: dict[str, dict[str, object]], case: str) -> None:
    result = results[case]
    assert "error" not in result, result["error"]
    assert result["difference"] <= BOUNDS[case.split("-")[1]]


@pytest.mark.parametrize("case", [case for case in CASES if "dynamic" in case])
def test_one_dynamic_graph_serves_all_sizes(results: dict[str, dict[str, object]], case: str) -> None:
    assert results[case]["graphs"] <= 2  # dynamo may guard the first batch apart from the rest


def test_results_of_dynamic_graphs_come_from_the_clients_allocator() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.torchair.allocator"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 3
    for line in lines[1:]:  # the first run makes the allocator's first segments
        assert line["right"]
        assert (
            line["bytes"] <= line["held"] <= line["bytes"] + 1024
        )  # whole blocks of 512 bytes, and a spare one
        assert line["left"] == 0
