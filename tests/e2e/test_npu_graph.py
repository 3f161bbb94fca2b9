"""torch.npu.NPUGraph on the unmodified torch_npu: what a captured graph computes is what eager computes.

Every case is a process of its own that prints one line of JSON; expected values come from the same network run
eagerly, or from arithmetic.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[[str], Any]

PRELUDE = """
import copy, json, torch
torch.manual_seed(0)

def network():
    torch.manual_seed(1)
    layers = torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 4)
    return torch.nn.Sequential(*layers).npu()

def on_a_side_stream(work):
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        work()
    torch.npu.current_stream().wait_stream(side)

def furthest(first, second):
    return max((a - b).abs().max().item() for a, b in zip(first, second, strict=True))
"""


@pytest.fixture
def run(tmp_path) -> Run:
    """Runs code after the prelude and hands back what it printed last, read as JSON."""

    def run(code: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + code],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_inference_equals_eager_for_new_inputs(run: Run) -> None:
    assert (
        run("""
net, x, graph = network(), torch.randn(8, 16).npu(), torch.npu.NPUGraph()
with torch.no_grad():
    on_a_side_stream(lambda: net(x))
    with torch.npu.graph(graph): y = net(x)
    errors = []
    for _ in range(5):
        new = torch.randn(8, 16).npu()
        x.copy_(new); graph.replay()
        errors.append((y - net(new)).abs().max().item())
print(json.dumps(errors))
""")
        == [0.0] * 5
    )


@pytest.mark.parametrize("optimizer", ["SGD(p, lr=0.1, momentum=0.9)", "AdamW(p, lr=0.01, capturable=True)"])
def test_a_training_step_equals_eager_over_several_steps(run: Run, optimizer: str) -> None:
    """Forward, backward and the optimizer in one graph; static inputs are copied in."""
    losses, distance = run(
        f"""
make = lambda p: torch.optim.{optimizer}
"""
        + """
eager, graphed = network(), network()
by_eager, by_graph = make(eager.parameters()), make(graphed.parameters())
xs = [torch.randn(8, 16).npu() for _ in range(10)]
ts = [torch.randint(0, 4, (8,)).npu() for _ in range(10)]
x, t, graph = xs[0].clone(), ts[0].clone(), torch.npu.NPUGraph()

def step(net, optimizer, x, t):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(net(x), t)
    loss.backward()
    optimizer.step()
    return loss

def warm_up():
    for i in range(3):
        x.copy_(xs[i]); t.copy_(ts[i])
        step(graphed, by_graph, x, t)

on_a_side_stream(warm_up)
for i in range(3): step(eager, by_eager, xs[i], ts[i])
by_graph.zero_grad(set_to_none=True)
with torch.npu.graph(graph): captured = step(graphed, by_graph, x, t)
losses = []
for i in range(3, 10):
    x.copy_(xs[i]); t.copy_(ts[i]); graph.replay()
    losses.append([captured.item(), step(eager, by_eager, xs[i], ts[i]).item()])
print(json.dumps([losses, furthest(eager.parameters(), graphed.parameters())]))
"""
    )
    for by_graph, by_eager in losses:
        assert by_graph == pytest.approx(by_eager, rel=1e-5)
    assert distance < 1e-6
    assert len({loss for loss, _ in losses}) == len(losses)


def test_graphed_callables(run: Run) -> None:
    assert run("""
first = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU()).npu()
second = torch.nn.Linear(16, 4).npu()
plain = [copy.deepcopy(first), copy.deepcopy(second)]
samples = (torch.randn(4, 8, device='npu'),), (torch.randn(4, 16, device='npu', requires_grad=True),)
first, second = torch.npu.make_graphed_callables((first, second), samples)
parameters = [*first.parameters(), *second.parameters()]
expected = [p for module in plain for p in module.parameters()]
errors = []
for _ in range(4):
    for p in parameters + expected: p.grad = None
    x = torch.randn(4, 8, device='npu')
    out, wanted = second(first(x)), plain[1](plain[0](x))
    out.square().sum().backward(); wanted.square().sum().backward()
    errors.append(max((out - wanted).abs().max().item(),
                      furthest([p.grad for p in parameters], [p.grad for p in expected])))
print(json.dumps(errors))
""") == pytest.approx([0.0] * 4, abs=1e-5)


def test_graphs_share_a_memory_pool(run: Run) -> None:
    values, shared = run("""
x, first, second = torch.ones(1 << 20, device='npu'), torch.npu.NPUGraph(), torch.npu.NPUGraph()
with torch.npu.graph(first): y = x * 2 + 1
taken = torch.npu.memory_reserved()
with torch.npu.graph(second, pool=first.pool()): z = (y * y + 1) * 2
values = []
for value in (1., 2., 3.):
    x.fill_(value); first.replay(); second.replay()
    values.append(z[0].item())
print(json.dumps([values, first.pool() == second.pool()]))
""")
    assert values == [((2 * v + 1) ** 2 + 1) * 2 for v in (1.0, 2.0, 3.0)]
    assert shared


def test_random_numbers_are_new_in_each_replay_and_those_of_the_seed(run: Run) -> None:
    repeats, seeded, means = run("""
ones, graph = torch.ones(4096, device='npu'), torch.npu.NPUGraph()
with torch.npu.graph(graph):
    drawn = [torch.rand(4096, device='npu'), torch.randn(4096, device='npu'),
             torch.nn.functional.dropout(ones, 0.5)]
def replay():
    graph.replay()
    return [d.cpu().clone() for d in drawn]
seen = [replay() for _ in range(3)]
repeats = sum(torch.equal(a, b) for i in range(3) for j in range(i) for a, b in zip(seen[i], seen[j]))
torch.npu.manual_seed(5); once = replay()
torch.npu.manual_seed(5); again = replay()
torch.npu.manual_seed(5); eager = torch.rand(4096, device='npu').cpu()
seeded = [torch.equal(a, b) for a, b in zip(once, again)] + [torch.equal(once[0], eager)]
print(json.dumps([repeats, seeded, [d.mean().item() for d in seen[0]]]))
""")
    assert repeats == 0
    assert seeded == [True] * 4
    assert means == pytest.approx([0.5, 0.0, 1.0], abs=0.08)  # four standard errors of 4,096 draws


def test_side_streams_and_pinned_copies(run: Run) -> None:
    assert run("""
x, source, target = torch.ones(64, device='npu'), torch.ones(64).pin_memory(), torch.empty(64).pin_memory()
side, graph = torch.npu.Stream(), torch.npu.NPUGraph()
with torch.npu.graph(graph):
    x.copy_(source, non_blocking=True)
    doubled = x * 2
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side): left = doubled + 1
    right = doubled * 3
    torch.npu.current_stream().wait_stream(side)
    target.copy_(left + right, non_blocking=True)
values = []
for value in (1., 2., 5.):
    source.fill_(value); graph.replay(); torch.npu.synchronize()
    values.append(target[0].item())
print(json.dumps(values))
""") == [2 * v + 1 + 6 * v for v in (1.0, 2.0, 5.0)]


def test_a_task_group_is_updated_while_the_replay_waits_for_it(run: Run) -> None:
    """What torch.npu.graph(auto_dispatch_capture=True) does for attention, step by step."""
    assert run("""
x, y, out = torch.ones(64, device='npu'), torch.full((64,), 2., device='npu'), torch.empty(64, device='npu')
graph, stream, updates, ready = torch.npu.NPUGraph(), torch.npu.Stream(), torch.npu.Stream(), torch.npu.ExternalEvent()
with torch.npu.graph(graph, stream=stream):
    ready.wait(stream); ready.reset(stream)
    torch.npu.graph_task_group_begin(stream)
    torch.add(x, y, alpha=1, out=out)
    group = torch.npu.graph_task_group_end(stream)
    result = out * 10
values = []
for alpha in (1., 3., 5.):
    graph.replay()
    with torch.npu.stream(updates):
        torch.npu.graph_task_update_begin(updates, group)
        torch.add(x, y, alpha=alpha, out=out)
        torch.npu.graph_task_update_end(updates)
        ready.record(updates)
    torch.npu.synchronize()
    values.append(result[0].item())
print(json.dumps(values))
""") == [(1 + 2 * alpha) * 10 for alpha in (1.0, 3.0, 5.0)]


@pytest.mark.parametrize(
    "illegal", ["(x + 1).sum().item()", "x.copy_(torch.randn(64))", "torch.npu.synchronize()"]
)
def test_an_illegal_call_fails_the_capture_and_nothing_else(run: Run, illegal: str) -> None:
    sentence, after = run(f"""
x, sentence = torch.ones(64, device='npu'), ''
try:
    with torch.npu.graph(torch.npu.NPUGraph()): {illegal}
except RuntimeError as error: sentence = str(error)
print(json.dumps([sentence, (x + 1)[0].item()]))
""")
    assert "ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED (507903)" in sentence
    assert "is being captured" in sentence or "forbids" in sentence
    assert after == 2.0


def test_a_graph_is_written_as_a_trace(run: Run) -> None:
    assert run("""
x, graph = torch.ones(64, device='npu'), torch.npu.NPUGraph()
with torch.npu.graph(graph): y = torch.relu(x + 1)
graph.debug_dump('graph.json')
print(json.dumps([event['name'] for event in json.load(open('graph.json'))]))
""") == ["aclnnAdds", "aclnnRelu"]


def test_collectives_are_captured(run: Run) -> None:
    """One rank; several are in tests/unit/hccl."""
    assert run("""
import torch.distributed as dist
dist.init_process_group('hccl', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)
x, graph = torch.ones(64, device='npu'), torch.npu.NPUGraph()
dist.all_reduce(x); torch.npu.synchronize()
with torch.npu.graph(graph):
    y = x * 2
    dist.all_reduce(y)
    z = y + 1
values = []
for value in (1., 4.):
    x.fill_(value); graph.replay(); values.append(z[0].item())
print(json.dumps(values))
dist.destroy_process_group()
""") == [3.0, 9.0]
