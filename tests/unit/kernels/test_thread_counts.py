"""Kernels with loops of their own give the same bits on one core and on several: no sum depends on how the rows
were shared out, and no two threads write one element. Random numbers: test_random.py."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib
import torch, torch_npu

source = torch.Generator().manual_seed(3)

def normal(*shape):
    return torch.randn(*shape, generator=source).npu()

def show(name, *tensors):
    digest = hashlib.sha1()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
    print(name, digest.hexdigest())

q, k, v = (normal(2048, 4, 32).requires_grad_() for _ in range(3))
hidden = torch.triu(torch.ones(2048, 2048, dtype=torch.bool), 1).npu()
ends = [100, 700, 701, 2048]
out = torch_npu.npu_fusion_attention(
    q, k, v, 4, "TND", atten_mask=hidden, scale=0.2, sparse_mode=3, actual_seq_qlen=ends, actual_seq_kvlen=ends
)
out[0].sum().backward()
show("attention", *out[:3], q.grad, k.grad, v.grad)

x, gain = normal(3000, 256).requires_grad_(), normal(256).requires_grad_()
normed = torch_npu.npu_rms_norm(x, gain)[0]
(normed * normed).sum().backward()
show("rms_norm", normed, x.grad, gain.grad)

table = normal(100, 64).requires_grad_()
index = torch.randint(100, (5000,), generator=source).npu()
(torch.nn.functional.embedding(index, table) * normal(5000, 64)).sum().backward()
show("embedding", table.grad)

image = normal(2, 16, 40, 40).requires_grad_()
pooled = torch.nn.functional.max_pool2d(image, 3, 2)
pooled.sum().backward()
show("max_pool2d", pooled, image.grad)
"""

TINY = """
import pathlib
import torch, torch_npu

weights = torch.ones(8, 4).npu()
for _ in range(4):
    torch.multinomial(weights, 2)
    torch.nn.functional.max_pool2d(torch.ones(1, 8, 4, 4, device="npu"), 2)
    torch.npu.synchronize()
for task in pathlib.Path("/proc/self/task").iterdir():
    print((task / "comm").read_text().strip())
"""


def run(script, threads):
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def digests(threads):
    return dict(line.split() for line in run(SCRIPT, threads).splitlines())


@pytest.mark.slow
def test_the_bits_do_not_depend_on_the_number_of_threads():
    one = digests(1)
    assert len(one) == 4
    assert digests(2) == one
    assert digests(3) == one


def test_tiny_operators_start_no_team_of_their_own():
    """They run on their caller's thread, torch_npu's queue, and the compute engine owns the only OpenMP team.
    Threads carry the name of the thread that started them."""
    names = run(TINY, threads=4).split()
    assert names.count("acl_thread") == 1
