"""The runtime under the real torch_npu, each time in a process of its own as a user would start it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Python

pytestmark = pytest.mark.slow


@pytest.fixture
def torch_run(python: Python):
    """Runs code after `import torch` and hands back what it printed; the process has to end well and quietly."""

    def run(code: str, status: int = 0, **variables: str) -> str:
        done = python("import torch\n" + code, **variables)
        assert done.returncode == status, done.stderr
        assert not re.search(r"Segmentation|core dumped|terminate called|Fatal", done.stderr), done.stderr
        return done.stdout.strip()

    return run


def test_streams_wait_for_each_other_and_events_time_them(torch_run) -> None:
    out = torch_run(
        "x = torch.randn(300, 300, device='npu')\n"
        "start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))\n"
        "side = torch.npu.Stream()\n"
        "start.record()\n"
        "with torch.npu.stream(side):\n"
        "    side.wait_stream(torch.npu.default_stream())\n"
        "    y = x @ x\n"
        "torch.npu.current_stream().wait_stream(side)\n"
        "z = y + 1\n"
        "end.record(); end.synchronize()\n"
        "print(torch.allclose(z.cpu(), x.cpu() @ x.cpu() + 1, atol=1e-3), start.elapsed_time(end) > 0, end.query())"
    )
    assert out == "True True True"


@pytest.mark.parametrize("expandable", ["True", "False"])
def test_memory_is_counted_and_too_much_is_an_out_of_memory_error(torch_run, expandable: str) -> None:
    out = torch_run(
        "free, total = torch.npu.mem_get_info()\n"
        "x = torch.empty(200 << 20, dtype=torch.uint8, device='npu')\n"
        "taken = free - torch.npu.mem_get_info()[0]\n"
        "print(total == 1 << 30, taken == torch.npu.memory_reserved() >= 200 << 20)\n"
        "try:\n"
        "    torch.empty(900 << 20, dtype=torch.uint8, device='npu')\n"
        "except torch.OutOfMemoryError as error:\n"
        "    print('out of memory. Tried to allocate' in str(error))\n"
        "del x; torch.npu.empty_cache()\n"
        "y = torch.ones(900 << 20, dtype=torch.uint8, device='npu')\n"
        "print(int(y[-1].item()))",
        NPU_EMULATOR_HBM_GB="1",
        PYTORCH_NPU_ALLOC_CONF=f"expandable_segments:{expandable}",
    )
    assert out.split() == ["True", "True", "True", "1"]


def test_segments_grow_and_shrink(torch_run) -> None:
    out = torch_run(
        "kept = [torch.full((n << 18,), float(n), device='npu') for n in (1, 5, 30, 2)]\n"
        "kept.pop(1)\n"
        "kept += [torch.full((n << 18,), float(n), device='npu') for n in (40, 3)]\n"
        "print(all(bool((t == t[0]).all()) for t in kept), [int(t[0].item()) for t in kept])\n"
        "del kept; torch.npu.empty_cache(); print(torch.npu.memory_reserved())",
        PYTORCH_NPU_ALLOC_CONF="expandable_segments:True",
    )
    assert out.splitlines() == ["True [1, 30, 2, 40, 3]", "0"]


def test_a_data_loader_with_workers_and_pinned_memory(torch_run) -> None:
    out = torch_run(
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "warm = torch.ones(2, device='npu') + 1\n"
        "data = TensorDataset(torch.arange(64.))\n"
        "loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)\n"
        "total = torch.zeros((), device='npu')\n"
        "for epoch in range(2):\n"
        "    for (batch,) in loader:\n"
        "        assert batch.is_pinned()\n"
        "        total += batch.to('npu', non_blocking=True).sum()\n"
        "print(total.item())"
    )
    assert float(out) == 2 * sum(range(64))


def test_a_fork_that_uses_the_npu_gets_an_error_and_the_parent_goes_on(torch_run) -> None:
    out = torch_run(
        "import os\n"
        "x = torch.ones(2, device='npu') + 1\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        torch.ones(2, device='npu') + 1\n"
        "    except RuntimeError as error:\n"
        "        print('spawn' in str(error), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); print((x + 1).tolist())"
    )
    assert out.split("\n") == ["True", "[3.0, 3.0]"]


FAILING = (
    "table, wrong = torch.randn(4, 3, device='npu'), torch.tensor([99], device='npu')\n"
    "def attempt(f):\n"
    "    try: f()\n"
    "    except RuntimeError as error: return '507015' in str(error) and 'aclnnEmbedding' in str(error)\n"
    "    return False\n"
)


def test_the_error_of_an_asynchronous_operator_sticks(torch_run) -> None:
    out = torch_run(
        FAILING + "bad = torch.nn.functional.embedding(wrong, table)\n"
        "later = table + 1\n"
        "print(attempt(later.cpu), attempt(torch.npu.synchronize), attempt(lambda: (table * 2).sum().item()),\n"
        "      attempt(torch.npu.current_stream().synchronize))"
    )
    assert out == "True True True True"


def test_the_error_of_a_blocking_operator_comes_at_once_and_a_reset_ends_it(torch_run) -> None:
    out = torch_run(
        FAILING + "import ctypes\n"
        "print(attempt(lambda: torch.nn.functional.embedding(wrong, table)))\n"
        "acl = ctypes.CDLL('libascendcl.so')\n"
        "print(acl.aclrtResetDevice(0), acl.aclrtSetDevice(0))\n"
        "print(torch.ones(2, device='npu').add(1).tolist())",
        ASCEND_LAUNCH_BLOCKING="1",
    )
    assert out.splitlines() == ["True", "0 0", "[2.0, 2.0]"]


@pytest.mark.parametrize("status", [0, 3])
def test_exit_with_work_queued_and_tensors_alive_is_clean(torch_run, status: int) -> None:
    shared = set(Path("/dev/shm").iterdir())
    torch_run(
        "import sys\n"
        "x = torch.randn(400, 400, device='npu')\n"
        "side = torch.npu.Stream()\n"
        "for _ in range(20): x = x @ x * 1e-3\n"
        "with torch.npu.stream(side): y = x + 1\n"
        f"kept = [x, y]; sys.exit({status})",
        status=status,
    )
    assert set(Path("/dev/shm").iterdir()) <= shared


def test_exit_without_synchronising_the_interpreter_is_clean(torch_run) -> None:
    torch_run(
        "import os, sys\nx = torch.randn(600, 600, device='npu')\nfor _ in range(30): x = x @ x * 1e-3\n"
        "import ctypes; ctypes.CDLL(None).exit(0)"  # C's exit: destructors run, Python's own handlers do not
    )


def test_an_exception_at_the_top_keeps_its_status(torch_run) -> None:
    torch_run("x = torch.ones(4, device='npu') + 1\nraise SystemExit('told')", status=1)


def test_tensors_and_events_are_shared_with_spawned_processes(python: Python, tmp_path: Path) -> None:
    script = tmp_path / "share.py"
    script.write_text(
        "import torch, torch_npu, torch.multiprocessing as mp\n"
        "def child(tasks, answers, event):\n"
        "    tensor = tasks.get(); event.wait(); answers.put(tensor.sum().item())\n"
        "    tensor.add_(1); torch.npu.synchronize(); del tensor; answers.put('added'); tasks.get()\n"
        "if __name__ == '__main__':\n"
        "    context = mp.get_context('spawn'); tasks, answers = context.Queue(), context.Queue()\n"
        "    event = torch.npu.Event(interprocess=True)\n"
        "    x = torch.arange(1000., device='npu'); event.record()\n"
        "    process = context.Process(target=child, args=(tasks, answers, event)); process.start()\n"
        "    tasks.put(x); print(answers.get(timeout=120), answers.get(timeout=120), x.sum().item())\n"
        "    tasks.put(None); process.join(); print(process.exitcode)\n"
    )
    done = python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert done.stdout.splitlines() == ["499500.0 added 500500.0", "0"], done.stderr


def test_device_properties(torch_run) -> None:
    out = torch_run(
        "p = torch.npu.get_device_properties(1)\n"
        "print(torch.npu.device_count(), torch.npu.get_device_name(0), p.total_memory, p.cube_core_num)",
        NPU_EMULATOR_DEVICES="2",
        NPU_EMULATOR_HBM_GB="2",
        NPU_EMULATOR_SOC="Ascend910B3",
    )
    assert out == f"2 Ascend910B3 {2 << 30} 20"


def test_profiling_the_device_is_refused_by_name(python: Python) -> None:
    """torch_npu ignores what aclprofInit answers, so the sentence goes to stderr too."""
    done = python(
        "import torch, torch_npu\n"
        "with torch_npu.profiler.profile(activities=[torch_npu.profiler.ProfilerActivity.NPU]):\n"
        "    torch.ones(2, device='npu') + 1\n"
    )
    assert "aclprofInit is not implemented by the host emulator of CANN" in done.stderr


def test_a_group_of_one_rank(torch_run) -> None:
    out = torch_run(
        "import torch.distributed as dist\n"
        "dist.init_process_group('hccl', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)\n"
        "x = torch.arange(4., device='npu'); gathered = [torch.zeros(4, device='npu')]\n"
        "dist.all_reduce(x); dist.broadcast(x, 0); dist.all_gather(gathered, x); dist.barrier()\n"
        "out = torch.empty(4, device='npu'); dist.reduce_scatter_tensor(out, x)\n"
        "inbox = torch.empty(4, device='npu'); dist.all_to_all_single(inbox, out)\n"
        "print(x.tolist() == gathered[0].tolist() == out.tolist() == inbox.tolist() == [0., 1., 2., 3.])\n"
        "dist.destroy_process_group()"
    )
    assert out == "True"
