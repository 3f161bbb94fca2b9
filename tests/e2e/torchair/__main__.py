"""Compiles a model with torchair and compares with eager npu: ``python -m tests.e2e.torchair CASE...``.

A case is MODEL-DTYPE-SHAPES-MODE ("llama-bfloat16-dynamic-forward"), or "decode-DTYPE". For each a line of JSON: the
case, the largest difference to eager relative to the largest element, and how many graphs were compiled.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence

import torch
import torch_npu
from torch import Tensor, nn

import torchair

from .models import MODELS

Result = dict[str, object]


class Counted:
    """torchair's backend, counting the graphs that it is handed."""

    def __init__(self, training: bool = False) -> None:
        config = torchair.CompilerConfig()
        # Gradients arrive strided, and torchair then drops a transpose before a view: wrong on any engine.
        config.experimental_config.enable_view_optimize = not training
        self.backend = torchair.get_npu_backend(compiler_config=config)
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., object]:
        self.graphs += 1
        return self.backend(module, inputs)


def difference(got: Sequence[Tensor], want: Sequence[Tensor]) -> float:
    """Of the pair that differs most: max |got - want| / max |want|."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        a, b = a.detach().cpu().double(), b.detach().cpu().double()
        if not bool(torch.isfinite(a).all()):
            return float("inf")
        worst = max(worst, float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)))
    return worst


def compile_model(model: nn.Module, backend: Counted, dynamic: bool) -> Callable[..., Tensor]:
    return torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)


def forward(name: str, dtype: torch.dtype, dynamic: bool) -> Result:
    backend = Counted()
    model = MODELS[name].make().to(dtype).npu().eval()
    compiled = compile_model(model, backend, dynamic)
    worst = 0.0
    with torch.no_grad():
        for batch in (4, 5, 3) if dynamic else (4, 4):
            inputs = [x.to(dtype).npu() for x in MODELS[name].inputs(batch)]
            worst = max(worst, difference([compiled(*inputs)], [model(*inputs)]))
    return {"difference": worst, "graphs": backend.graphs}


def train(name: str, dtype: torch.dtype, dynamic: bool) -> Result:
    """Three SGD steps with the compiled module and with the eager one: losses, gradients and parameters."""
    backend = Counted(training=True)
    models = [MODELS[name].make().to(dtype).npu() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    forwards = [compile_model(models[0], backend, dynamic), models[1]]
    optimizers = [torch.optim.SGD(m.parameters(), 0.05) for m in models]
    worst = 0.0
    for batch in (4, 5, 3) if dynamic else (4, 4, 4):
        inputs = [x.to(dtype).npu() for x in MODELS[name].inputs(batch)]
        losses = []
        for run, optimizer in zip(forwards, optimizers, strict=True):
            optimizer.zero_grad()
            loss = run(*inputs).float().pow(2).mean()
            loss.backward()
            losses.append(loss)
        gradients = [[p.grad for p in m.parameters()] for m in models]
        worst = max(worst, difference([losses[0], *gradients[0]], [losses[1], *gradients[1]]))
        for optimizer in optimizers:
            optimizer.step()
    parameters = [list(m.parameters()) for m in models]
    return {"difference": max(worst, difference(parameters[0], parameters[1])), "graphs": backend.graphs}


class Decoder(nn.Module):
    """One attention layer over a cache that it writes into at a position."""

    def __init__(self, dim: int = 16, length: int = 8) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.length = length

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, position: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        torch_npu.scatter_update_(keys, position.expand(x.shape[0]), k, -2)
        torch_npu.scatter_update_(values, position.expand(x.shape[0]), v, -2)
        scores = q @ keys.transpose(-1, -2) / keys.shape[-1] ** 0.5
        later = torch.arange(self.length, device=x.device)[None, None, :] > position
        return torch.softmax(scores.masked_fill(later, float("-inf")), -1) @ values


def decode(dtype: torch.dtype) -> Result:
    backend = Counted()
    model = Decoder().to(dtype).npu().eval()
    compiled = compile_model(model, backend, dynamic=False)
    caches = [[torch.zeros(2, 8, 16, dtype=dtype).npu() for _ in range(2)] for _ in range(2)]
    worst = 0.0
    with torch.no_grad():
        for step in range(6):
            x, position = torch.randn(2, 1, 16, dtype=dtype).npu(), torch.tensor([step]).npu()
            got, want = compiled(x, *caches[0], position), model(x, *caches[1], position)
            worst = max(worst, difference([got, *caches[0]], [want, *caches[1]]))
    return {"difference": worst, "graphs": backend.graphs}


def run(case: str) -> Result:
    torch.manual_seed(0)
    torch._dynamo.reset()
    words = case.split("-")
    dtype = getattr(torch, words[1])
    if words[0] == "decode":
        return decode(dtype)
    mode = train if words[3] == "train" else forward
    return mode(words[0], dtype, words[2] == "dynamic")


def main() -> None:
    for case in sys.argv[1:]:
        try:
            result = run(case)
        except Exception:
            result = {"error": traceback.format_exc()}
        print(json.dumps({"case": case} | result), flush=True)


if __name__ == "__main__":
    main()
