"""Joining, cutting, repeating, padding, sorting and factorising, where PyTorch's samples do not go."""

import math

import pytest
import torch
import torch_npu

from . import aclnn


def equal(got, want):
    assert got.shape == want.shape and torch.equal(got.cpu(), want), (got.cpu(), want)


def test_cat_of_mixed_dtypes_layouts_and_empties():
    parts = [torch.arange(4).view(2, 2), torch.empty(0), torch.ones(3, 2).t()[:, :1], torch.zeros(2, 0)]
    equal(torch.cat([part.npu() for part in parts], 1), torch.cat(parts, 1))
    out = torch.empty(3, 4).npu().t()[::2]
    torch.cat([torch.ones(1, 3).npu(), torch.zeros(1, 3).npu()], out=out)
    equal(out, torch.tensor([[1.0] * 3, [0.0] * 3]))


def test_split_writes_each_part():
    x = torch.arange(10.0).view(2, 5)
    parts = [torch.empty(2, n).npu() for n in (2, 2, 1)]
    aclnn.call("SplitTensor", x.npu(), 2, 1, parts)
    for got, want in zip(parts, x.split(2, 1), strict=True):
        equal(got, want)
    aclnn.call("SplitWithSize", x.npu(), (2, 2, 1), -1, parts)
    equal(parts[2], x[:, 4:])


@pytest.mark.parametrize("repeats", [torch.tensor([2, 0, 3]), torch.tensor([2])])
def test_repeat_interleave_and_its_gradient(repeats):
    x = torch.randn(2, 3, dtype=torch.float32)
    got = x.npu().requires_grad_()
    want = x.double().requires_grad_()
    y, z = got.repeat_interleave(repeats.npu(), 1), want.repeat_interleave(repeats, 1)
    torch.testing.assert_close(y.detach().cpu().double(), z.detach(), rtol=1e-6, atol=1e-6)
    weights = torch.randn(z.shape)
    (y * weights.npu()).sum().backward()
    (z * weights.double()).sum().backward()
    torch.testing.assert_close(got.grad.cpu().double(), want.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [((1,), (100,), (1,), (2,)), ((-2, 0), (5, -1), (0, 1), (1, 1)), ((3,), (1,), (1,), (1,))],
)
def test_slice_v2_takes_bounds_as_python_does(starts, ends, axes, steps):
    x = torch.arange(15.0).view(3, 5)
    want = x
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        want = want[(slice(None),) * axis + (slice(start, end, step),)]
    out = torch.empty(want.shape).npu()
    aclnn.call("SliceV2", x.npu(), starts, ends, axes, steps, out)
    equal(out, want)


def test_strided_slice_reads_its_masks_as_tensorflow_does():
    x = torch.arange(24.0).view(2, 3, 4)

    def sliced(want, starts, ends, strides, **masks):
        out = torch.empty(want.shape).npu()
        bits = [masks.get(name, 0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink")]
        aclnn.call("StridedSlice", x.npu(), starts, ends, strides, *bits, out)
        equal(out, want)

    sliced(x[:, 1:, 0:2], (9, 1, 0), (9, 9, 2), (1, 1, 1), begin=1, end=1)
    sliced(x[1], (1,), (2,), (1,), shrink=1)
    sliced(x[..., 3], (0, 3), (0, 4), (1, 1), ellipsis=1, shrink=2)
    sliced(x[:, None, 2], (0, 0, 2), (2, 0, 3), (1, 1, 1), new_axis=2, shrink=4)
    sliced(x.flip(2)[:, :, ::2], (0, 0, 0), (2, 3, 0), (1, 1, -2), begin=4, end=4)
    sliced(x.flip(2)[:, :, 1:3], (0, 0, 2), (2, 3, 0), (1, 1, -1))


def test_strided_slice_assign_writes_the_slice_alone():
    x, value = torch.zeros(3, 6), torch.ones(2, 3)
    want = x.clone()
    want[1:, 0:6:2] = value
    got = x.npu()
    aclnn.call("StridedSliceAssignV2", got, value.npu(), (1, 0), (9, 6), (1, 2), None)
    equal(got, want)


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
def test_real_fourier_transforms(norm):
    torch.manual_seed(0)
    x = torch.randn(3, 10)
    got = torch.fft.rfft(x.npu(), n=8, dim=1, norm=norm)
    torch.testing.assert_close(got.cpu(), torch.fft.rfft(x, n=8, dim=1, norm=norm), rtol=1e-5, atol=1e-5)
    parts = torch.empty(3, 5, 2).npu()
    code = {"backward": 1, "forward": 2, "ortho": 3}[norm]
    aclnn.call("aclRfft1D", x.npu(), 8, 1, code, parts)
    torch.testing.assert_close(torch.view_as_complex(parts.cpu()), got.cpu(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("win_length", [None, 12])
@pytest.mark.parametrize("onesided", [True, False])
def test_short_time_fourier_transform(win_length, onesided):
    torch.manual_seed(0)
    x, window = torch.randn(2, 90), torch.hann_window(win_length or 16)
    options = {"hop_length": 5, "win_length": win_length, "onesided": onesided, "return_complex": True}
    for normalized in (True, False):
        got = torch.stft(x.npu(), 16, window=window.npu(), normalized=normalized, **options)
        want = torch.stft(x.double(), 16, window=window.double(), normalized=normalized, **options)
        torch.testing.assert_close(got.cpu().to(want.dtype), want, rtol=1e-5, atol=1e-5)


def test_one_hot_leaves_classes_out_of_range_off():
    on, off = torch.tensor([5.0]).npu(), torch.tensor([-1.0]).npu()
    out = torch.empty(4, 3).npu()
    index = torch.tensor([0, 2, 7, -1])
    aclnn.call("OneHot", index.npu(), 3, on, off, -1, out)
    want = torch.full((4, 3), -1.0)
    want[0, 0] = want[1, 2] = 5.0
    equal(out, want)
    out = torch.empty(3, 4).npu()
    aclnn.call("OneHot", index.npu(), 3, on, off, 0, out)
    equal(out, want.t())


def test_confusion_transpose_and_its_inverse():
    x = torch.arange(24.0).view(2, 3, 4)
    got = torch_npu.npu_confusion_transpose(x.npu(), (0, 2, 1), (2, 12), True)
    equal(got, x.permute(0, 2, 1).reshape(2, 12))
    got = torch_npu.npu_confusion_transpose(x.view(2, 12).npu(), (1, 0, 2), (2, 3, 4), False)
    equal(got, x.view(2, 3, 4).permute(1, 0, 2))


def test_padding_with_a_negative_width_and_of_bool():
    x = torch.tensor([[True, False, True]])
    equal(torch.nn.functional.pad(x.npu(), (-1, 2, 1, 0), value=True),
          torch.nn.functional.pad(x, (-1, 2, 1, 0), value=True))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_and_counts_nan_as_largest(dtype, descending):
    x = torch.tensor([[2.0, math.nan, -math.inf, 2.0, math.inf], [1.0, 1.0, 0.0, -0.0, 1.0]]).to(dtype)
    values, places = torch.sort(x.npu().t(), dim=0, stable=True, descending=descending)
    want = torch.sort(x.t(), dim=0, stable=True, descending=descending)
    torch.testing.assert_close(values.cpu(), want.values, equal_nan=True, rtol=0, atol=0)
    equal(places, want.indices)
    order = torch.empty(2, 5, dtype=torch.int64).npu()
    aclnn.call("Argsort", x.npu(), 1, descending, order)
    equal(order, want.indices.t())


def test_topk_of_a_strided_operand():
    x = torch.tensor([[4.0, 1.0], [3.0, 9.0], [8.0, 2.0]])
    values, places = x.npu().t().topk(2, dim=1)
    equal(values, torch.tensor([[8.0, 4.0], [9.0, 2.0]]))
    equal(places, torch.tensor([[2, 0], [1, 2]]))


@pytest.mark.parametrize("right", [False, True])
def test_places_in_a_sorted_sequence(right):
    sequence = torch.tensor([1.0, 3.0, 3.0, 7.0])
    x = torch.tensor([[0.0, 3.0], [7.0, 8.0]])
    equal(
        torch.searchsorted(sequence.npu(), x.npu(), right=right), torch.searchsorted(sequence, x, right=right)
    )
    equal(torch.bucketize(x.npu(), sequence.npu(), right=right), torch.bucketize(x, sequence, right=right))
    assert torch.searchsorted(sequence.npu(), 3.0, right=right).item() == (3 if right else 1)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 4, 4)])
def test_factorisations_multiply_to_the_matrix(shape):
    torch.manual_seed(0)
    a = torch.randn(shape)
    for full in (False, True):
        u, s, vh = torch.linalg.svd(a.npu(), full_matrices=full)
        k = min(shape[-2:])
        got = u[..., :k] @ torch.diag_embed(s) @ vh[..., :k, :]
        torch.testing.assert_close(got.cpu(), a, rtol=1e-4, atol=1e-4)
    for mode in ("reduced", "complete"):
        q, r = torch.linalg.qr(a.npu(), mode)
        torch.testing.assert_close((q @ r).cpu(), a, rtol=1e-4, atol=1e-4)
        unit = (q.mT @ q).cpu()
        torch.testing.assert_close(unit, torch.eye(q.shape[-1]).expand_as(unit), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        torch.linalg.svdvals(a.npu()).cpu(), torch.linalg.svdvals(a), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_solve(upper, transpose):
    torch.manual_seed(0)
    a, b = torch.randn(3, 3) + 4 * torch.eye(3), torch.randn(3, 2)
    x, m = torch.triangular_solve(b.npu(), a.npu(), upper=upper, transpose=transpose)
    matrix = (a.triu() if upper else a.tril()).double()
    torch.testing.assert_close(
        ((matrix.T if transpose else matrix) @ x.cpu().double()), b.double(), rtol=1e-5, atol=1e-5
    )
    equal(m, a)
