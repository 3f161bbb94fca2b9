"""What titan_npu does in place of another package is still needed, and imports change nothing."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from datetime import timedelta

import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch_npu.distributed.tensor import _math_ops

from titan_npu.compat import pipelining, torch_distributed


def test_set_timeout_is_still_needed() -> None:
    found = getattr(dist, "set_timeout", None)
    assert found in (None, torch_distributed.set_timeout), (
        "torch has set_timeout now: delete titan_npu/compat/torch_distributed.py and install() in trainer.py"
    )


@pytest.mark.usefixtures("one_rank")
def test_set_timeout_sets_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(dist, "set_timeout", raising=False)
    torch_distributed.install()
    dist.set_timeout(timedelta(seconds=77))
    backend = distributed_c10d._get_default_group()._get_backend(dist.distributed_c10d.torch.device("cpu"))
    assert backend.options._timeout == timedelta(seconds=77)
    theirs = lambda timeout, group=None: None  # noqa: E731
    monkeypatch.setattr(dist, "set_timeout", theirs)
    torch_distributed.install()
    assert dist.set_timeout is theirs  # torch's own is never replaced


def test_microbatches_of_a_schedule_are_still_needed() -> None:
    assert pipelining.needed(), (
        "torch's schedules take arg_mbs now: delete titan_npu/compat/pipelining.py and call step() and eval()"
    )


def test_torch_npus_rule_for_gather_is_still_wrong() -> None:
    """It keeps a dimension sharded, and the operator gets the size of the whole input."""
    source = inspect.getsource(_math_ops.custom_npu_gather_backward_strategy)
    assert "Shard(d)" in source and "register_sharding(npu.npu_gather_backward.default)" in source, (
        "torch_npu has another rule now: see whether titan_npu/compat/dtensor.py is still needed"
    )


EFFECTS = """
import importlib, json, logging, os, pkgutil, signal, sys, threading
import torch.distributed, torch_npu, torchtitan.trainer, hydra, datasets, rich.progress
from torch.utils import tensorboard

def state():
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    root = logging.getLogger()
    return {
        "environment": dict(os.environ), "signals": [repr(h) for h in handlers],
        "logging": [repr(root.handlers), root.level], "threads": threading.active_count(),
        "set_timeout": hasattr(torch.distributed, "set_timeout"), "npu started": torch.npu.is_initialized(),
        "files": os.listdir(),
    }

before = state()
import titan_npu
for module in pkgutil.walk_packages(titan_npu.__path__, "titan_npu."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
after = state()
print(json.dumps([name for name in before if before[name] != after[name]]))
"""


@pytest.mark.slow
def test_imports_have_no_effects(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EFFECTS], capture_output=True, text=True, cwd=str(tmp_path), check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_command_line_answers_before_torch_is_imported() -> None:
    code = (
        "import sys, titan_npu.cli as cli; cli.build_parser().format_help(); "
        "print([m for m in ('torch', 'torchtitan', 'hydra') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
