"""Indexing and scattering: places in every form, repeated indices, nothing to index, indices out of range."""

import numpy as np
import pytest
import torch
import torch_npu

from . import aclnn

DTYPES = (torch.float32, torch.bfloat16, torch.int64)


def equal(got, want):
    assert got.shape == want.shape and torch.equal(got.cpu(), want), (got.cpu(), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "places",
    [
        (torch.tensor([1, -1, 1, 0]),),
        (slice(None), torch.tensor([2, 2, 0])),
        (slice(None), torch.tensor([[2, 2], [0, 1]]), torch.tensor([[1, 1], [-1, 3]])),
        (torch.tensor([1, 1, 0]), slice(None), torch.tensor([3, 3, 0])),
        (torch.tensor([[0], [1]]), torch.tensor([2, 0])),
        (torch.tensor([[True, False, True], [False, True, True]]),),
    ],
)
def test_index_put_accumulates_repeated_places(dtype, places):
    x = torch.arange(24).view(2, 3, 4)
    values = torch.arange(1, 1 + x[places].numel()).view(x[places].shape)
    want = x.numpy().copy()
    np.add.at(want, tuple(p.numpy() if isinstance(p, torch.Tensor) else p for p in places), values.numpy())
    on_npu = tuple(p.npu() if isinstance(p, torch.Tensor) else p for p in places)
    got = x.to(dtype).npu()
    equal(got[on_npu], x[places].to(dtype))
    torch.ops.aten.index_put_(
        got, [None if isinstance(p, slice) else p for p in on_npu], values.to(dtype).npu(), accumulate=True
    )
    equal(got, torch.from_numpy(want).to(dtype))


def test_accumulation_takes_a_transposed_self_and_broadcast_values():
    x = torch.zeros(4, 3).npu().t()
    x.index_put_((torch.tensor([0, 0, 2]).npu(),), torch.tensor([1.0, 2.0, 3.0, 4.0]).npu(), accumulate=True)
    want = torch.zeros(3, 4)
    want[0], want[2] = torch.tensor([2.0, 4.0, 6.0, 8.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    equal(x, want)


def test_accumulation_has_one_order():
    torch.manual_seed(0)
    places, values = torch.randint(7, (200_003,)).npu(), torch.randn(200_003).npu()

    def sums():
        return torch.zeros(7).npu().index_put_((places,), values, accumulate=True).cpu()

    first = sums()
    assert all(torch.equal(first, sums()) for _ in range(5))
    exact = torch.zeros(7, dtype=torch.float64).index_add_(0, places.cpu(), values.cpu().double())
    torch.testing.assert_close(first.double(), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.bool])
def test_no_index_changes_nothing(dtype):
    x = torch.tensor([[0, 1], [1, 0], [1, 1]]).to(dtype)
    none = torch.empty(0, dtype=torch.int64).npu()
    got = x.npu()
    got[none] = torch.ones((), dtype=dtype).npu()
    got[:, none] = 1
    got.index_put_((none, none), torch.ones((), dtype=dtype).npu(), accumulate=True)
    got[torch.zeros(3, 2, dtype=torch.bool).npu()] = 1
    equal(got, x)
    equal(got[none], x[none.cpu()])
    equal(got[:, none], x[:, none.cpu()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(dtype, mode, include_self):
    torch.manual_seed(0)
    x, src = torch.randn(4, 5).to(dtype), torch.randn(6, 5).to(dtype)
    index = torch.randint(4, (6, 5))
    code = {"sum": 1, "prod": 2, "amax": 3, "amin": 4, "mean": 5}[mode]
    out = torch.empty(4, 5, dtype=dtype).npu()
    aclnn.call("ScatterReduce", x.npu(), 0, index.npu(), src.npu(), code, include_self, out)
    want = x.double().scatter_reduce(0, index, src.double(), mode, include_self=include_self)
    torch.testing.assert_close(out.cpu().double(), want.to(dtype).double(), rtol=1e-2, atol=1e-2)
    if dtype == torch.float32:
        torch.testing.assert_close(out.cpu().double(), want, rtol=1e-6, atol=1e-6)


def test_narrow_sums_are_carried_in_float():
    ones = torch.ones(4096, dtype=torch.bfloat16).npu()
    zero = torch.zeros(4096, dtype=torch.int64).npu()
    start = torch.zeros(2, dtype=torch.bfloat16).npu()
    want = torch.tensor([4096.0, 0.0], dtype=torch.bfloat16)
    equal(start.scatter_add(0, zero, ones), want)
    equal(start.index_add(0, zero, ones), want)
    equal(start.clone().index_put_((zero,), ones, accumulate=True), want)
    equal(start.clone().put_(zero, ones, accumulate=True), want)


def test_scatter_value_and_products():
    x, index = torch.full((2, 3), 2.0), torch.tensor([[0, 1, 1]])
    equal(x.npu().scatter(0, index.npu(), 7.0), x.scatter(0, index, 7.0))
    equal(
        x.npu().scatter(0, index.npu(), 7.0, reduce="multiply"), x.scatter(0, index, 7.0, reduce="multiply")
    )
    equal(x.npu().scatter(0, index.npu(), 7.0, reduce="add"), x.scatter(0, index, 7.0, reduce="add"))


def test_rows_by_gather_v2_v3_and_nd():
    x = torch.arange(24.0).view(2, 3, 4)
    index = torch.tensor([[2, 0], [1, 1]], dtype=torch.int32)
    out = torch.empty(2, 2, 2, 4).npu()
    aclnn.call("GatherV2", x.npu(), 1, index.npu(), out)
    equal(out, torch.from_numpy(np.take(x.numpy(), index.numpy(), 1)))
    batched = torch.empty(2, 2, 4).npu()
    aclnn.call("GatherV3", x.npu(), 1, index.npu(), 1, 0, batched)
    equal(batched, torch.stack([x[i][index[i].long()] for i in range(2)]))
    points = torch.tensor([[1, 2], [0, -1]])
    rows = torch.empty(2, 4).npu()
    aclnn.call("GatherNd", x.npu(), points.npu(), True, rows)
    equal(rows, torch.stack([x[1, 2], x[0, 2]]))


def test_scatter_by_rows_of_indices():
    x, updates = torch.zeros(3, 2, 4), torch.arange(1.0, 9.0).view(2, 4)
    points = torch.tensor([[2, 1], [0, 0]])
    want = x.clone()
    want[2, 1], want[0, 0] = updates
    equal(torch_npu.npu_scatter_nd_update(x.npu(), points.npu(), updates.npu()), want)
    strided = torch.zeros(4, 2, 3).npu().permute(2, 1, 0)
    torch_npu.npu_scatter_nd_update_(strided, points.npu(), updates.npu())
    equal(strided, want)
    out = torch.empty_like(x).npu()
    aclnn.call("ScatterNd", x.npu(), points.npu(), updates.npu(), out)
    equal(out, want)


def test_tensorflow_scatters_apply_repeated_updates_in_order():
    start, index = torch.tensor([[24.0, 6.0], [1.0, 2.0]]), torch.tensor([0, 0, 1])
    updates = torch.tensor([[2.0, 3.0], [4.0, 1.0], [5.0, 5.0]])
    expected = {
        "ScatterMul": [[192.0, 18.0], [5.0, 10.0]],
        "ScatterDiv": [[3.0, 2.0], [0.2, 0.4]],
        "ScatterMax": [[24.0, 6.0], [5.0, 5.0]],
        "ScatterMin": [[2.0, 1.0], [1.0, 2.0]],
    }
    for name, want in expected.items():
        got = start.npu()
        aclnn.call(name, got, index.npu(), updates.npu(), False)
        torch.testing.assert_close(got.cpu(), torch.tensor(want))
    got = start.npu()
    aclnn.call("TfScatterAdd", got, index.npu(), updates.npu())
    equal(got, torch.tensor([[30.0, 10.0], [6.0, 7.0]]))
    aclnn.call("TfScatterAdd", got, torch.tensor([[1, 1], [1, 1]]).npu(), torch.tensor([1.0, 2.0]).npu())
    equal(got, torch.tensor([[30.0, 10.0], [6.0, 10.0]]))


def test_updates_of_a_cache_start_at_an_offset_per_entry():
    cache, updates = torch.zeros(2, 1, 5, 3), torch.arange(1.0, 13.0).view(2, 1, 2, 3)
    offsets = torch.tensor([3, 0], dtype=torch.int32)
    want = cache.clone()
    want[0, :, 3:5], want[1, :, 0:2] = updates
    equal(torch_npu.scatter_update(cache.npu(), offsets.npu(), updates.npu(), -2), want)
    entries = torch_npu.npu_scatter_list(
        [entry.npu() for entry in cache], offsets.npu(), updates.npu(),
        torch.tensor([1, 0], dtype=torch.uint8).npu(), reduce="update", axis=-2,
    )  # fmt: skip
    equal(torch.stack(list(entries)), torch.stack([want[0], cache[1]]))


def test_results_of_unknown_extent():
    x = torch.tensor([[3, 0, 3], [0, 1, 3]])
    strided = torch.stack([x, x], -1).npu()[..., 0]
    equal(torch.nonzero(strided), torch.nonzero(x))
    equal(torch.masked_select(strided, (x > 0).npu()), x[x > 0])
    equal(torch.masked_select(strided, torch.zeros(3, dtype=torch.bool).npu()), x[x > 9])
    equal(torch.nonzero(torch.zeros(0, 3).npu()), torch.nonzero(torch.zeros(0, 3)))
    equal(torch.nonzero(torch.tensor(5).npu()), torch.nonzero(torch.tensor(5)))
    options = {"return_inverse": True, "return_counts": True}
    for got, want in [
        (torch.unique(strided, **options), torch.unique(x, **options)),
        (torch.unique(strided, dim=1, **options), torch.unique(x, dim=1, **options)),
        (torch.unique_consecutive(strided, **options), torch.unique_consecutive(x, **options)),
        (torch.unique_consecutive(strided, dim=0, **options), torch.unique_consecutive(x, dim=0, **options)),
    ]:
        for one, other in zip(got, want, strict=True):
            equal(one, other)
    equal(torch.unique(strided, return_inverse=False), torch.unique(x))


OUT_OF_RANGE = {
    "index_select": lambda x, bad: x.index_select(0, bad),
    "gather": lambda x, bad: x.gather(0, bad.expand(3, 4)),
    "index": lambda x, bad: x[bad],
    "index_put": lambda x, bad: x.index_put_((bad,), x[0].clone()),
    "index_put, accumulated": lambda x, bad: x.index_put_((bad,), x[0].clone(), accumulate=True),
    "index_add": lambda x, bad: x.index_add_(0, bad, torch.ones_like(x)[:1].expand(bad.numel(), 4)),
    "index_copy": lambda x, bad: x.index_copy_(0, bad, torch.ones_like(x)[:1].expand(bad.numel(), 4)),
    "index_fill": lambda x, bad: x.index_fill_(0, bad, 1.0),
    "scatter": lambda x, bad: x.scatter_(0, bad.expand(3, 4), torch.ones_like(x)),
    "scatter of a value": lambda x, bad: x.scatter_(0, bad.expand(3, 4), 1.0),
    "scatter_add": lambda x, bad: x.scatter_add_(0, bad.expand(3, 4), torch.ones_like(x)),
    "take": lambda x, bad: x.take(bad),
    "put": lambda x, bad: x.put_(bad, torch.ones(bad.numel()).npu()),
    "put, accumulated": lambda x, bad: x.put_(bad, torch.ones(bad.numel()).npu(), accumulate=True),
    "embedding": lambda x, bad: torch.nn.functional.embedding(bad, x),
    "scatter_nd": lambda x, bad: torch_npu.npu_scatter_nd_update(
        x, bad.view(-1, 1), torch.ones(bad.numel(), 4).npu()
    ),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
@pytest.mark.parametrize("bad", [1000, -1000])
def test_an_index_out_of_range_is_named(name, bad, device_that_fails):
    x = torch.zeros(3, 4).npu()
    index = torch.tensor([bad]).npu()
    torch.npu.synchronize()
    with pytest.raises((RuntimeError, IndexError), match=f"(?s)({bad}|1000)"):
        OUT_OF_RANGE[name](x, index)
        torch.npu.synchronize()
