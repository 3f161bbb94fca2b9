"""The JAX examples as a user runs them: on npu, and on cpu for what they ought to print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "jax"
_LOSS = re.compile(r"loss ([0-9.]+)")


def run(example: str, platforms: str, *arguments: str) -> str:
    environ = {**os.environ, "JAX_PLATFORMS": platforms}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{example}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env=environ,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "right"
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("example", "arguments"), [("mlp", []), ("train", ["40"])])
def test_losses_equal_those_of_xla_cpu(example: str, arguments: list[str]) -> None:
    ours = [float(x) for x in _LOSS.findall(run(example, "npu", *arguments))]
    theirs = [float(x) for x in _LOSS.findall(run(example, "cpu", *arguments))]
    assert len(ours) == len(theirs) > 3
    # Rounding differs and training enlarges it: the first steps tightly, the whole to the fourth digit.
    np.testing.assert_allclose(ours[:2], theirs[:2], rtol=1e-5)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.slow
def test_generated_tokens_equal_those_of_xla_cpu() -> None:
    tokens = [re.search(r"\[([0-9, ]+)\]", run("generate", platform)) for platform in ("npu", "cpu")]
    assert tokens[0] is not None and tokens[1] is not None and tokens[0][1] == tokens[1][1]
