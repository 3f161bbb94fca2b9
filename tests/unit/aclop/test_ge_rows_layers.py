"""GE operators that are layers of a network (normalisation, pooling, convolution, losses), against
torch in float64."""

import math

import pytest
import torch
from torch.nn import functional as F

from .rows import F32, FLOATS, Case, blank, call, check, equal, grads, ints, leaf, sample, scalar

LIMIT = {torch.float32: 3e-5, torch.float16: 6e-3, torch.bfloat16: 5e-2}


# --- normalisation ---


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm(door, dtype):
    x, gamma, beta = sample((4, 3, 8), -2, 2, dtype), sample((8,), 0.5, 2, dtype), sample((8,), -1, 1, dtype)
    wide = x.double()
    y = F.layer_norm(wide, [8], gamma.double(), beta.double(), 1e-5).to(dtype)
    mean, var = wide.mean(-1, True).float(), wide.var(-1, correction=0, keepdim=True)
    rstd, limit = (var + 1e-5).rsqrt().float(), LIMIT[dtype]
    v4 = Case("LayerNormV4", [x, ints(8), gamma, beta], [y, mean, rstd], {"epsilon": 1e-5}, limit)
    check(door, v4)
    axes = {"begin_norm_axis": -1, "begin_params_axis": -1, "epsilon": 1e-5}
    check(door, Case("LayerNormV3", [x, gamma, beta], v4.expected, axes, limit))
    check(door, Case("LayerNorm", [x, gamma, beta], [y, mean, var.float()], axes, limit))
    plain = F.layer_norm(wide, [8]).to(dtype)
    check(door, Case("LayerNormV4", [x, ints(8), None, None], [plain, mean, rstd], {"epsilon": 1e-5}, limit))


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16], ids=str)
def test_the_gradient_of_layer_norm(door, dtype):
    x, gamma, dy = sample((4, 8), -2, 2, dtype), sample((8,), 0.5, 2, dtype), sample((4, 8), -1, 1, dtype)
    a, w, b = leaf(x), leaf(gamma), torch.zeros(8, dtype=torch.float64, requires_grad=True)
    dx, dw, db = grads(F.layer_norm(a, [8], w, b, 1e-5), dy, a, w, b)
    mean = x.double().mean(1, True).float()
    rstd = (x.double().var(1, correction=0, keepdim=True) + 1e-5).rsqrt().float()
    want = [dx.to(dtype), dw, db]
    inputs = [dy, x, rstd, mean, gamma]
    check(door, Case("LayerNormGradV3", inputs, want, {"output_mask": [True, True, True]}, LIMIT[dtype]))
    want[1] = torch.zeros(8)
    check(door, Case("LayerNormGradV3", inputs, want, {"output_mask": [True, False, True]}, LIMIT[dtype]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rms_norm(door, dtype):
    x, z, gamma = sample((4, 8), -2, 2, dtype), sample((4, 8), -2, 2, dtype), sample((8,), 0.5, 2, dtype)
    limit = LIMIT[dtype]

    def norm(v):
        rstd = (v.square().mean(-1, True) + 1e-6).rsqrt()
        return v * rstd * gamma.double(), rstd

    y, rstd = norm(x.double())
    check(door, Case("RmsNorm", [x, gamma], [y.to(dtype), rstd.float()], {"epsilon": 1e-6}, limit))
    total = (x.double() + z.double()).to(dtype)
    y2, rstd2 = norm(total.double())
    check(
        door,
        Case("AddRmsNorm", [x, z, gamma], [y2.to(dtype), rstd2.float(), total], {"epsilon": 1e-6}, limit),
    )
    both = [y2.float(), y2.to(dtype), rstd2.float(), total]
    check(door, Case("AddRmsNormCast", [x, z, gamma], both, {"epsilon": 1e-6}, limit))
    a, w, dy = leaf(x), leaf(gamma), sample((4, 8), -1, 1, dtype)
    dx, dw = grads(a * (a.square().mean(-1, True) + 1e-6).rsqrt() * w, dy, a, w)
    check(door, Case("RmsNormGrad", [dy, x, rstd.float(), gamma], [dx.to(dtype), dw], {}, limit))


def test_group_norm(door):
    x, gamma, beta, dy = torch.randn(2, 6, 4, 3), torch.randn(6), torch.randn(6), torch.randn(2, 6, 4, 3)
    a, w, b = leaf(x), leaf(gamma), leaf(beta)
    y = F.group_norm(a, 3, w, b, 1e-5)
    groups = x.double().view(2, 3, -1)
    mean, var = groups.mean(2).float(), groups.var(2, correction=0)
    rstd = (var + 1e-5).rsqrt().float()
    out = y.detach().float()
    options = {"num_groups": 3, "eps": 1e-5, "is_training": True}
    check(door, Case("GroupNormV2", [x, gamma, beta], [out, mean, rstd], {**options, "data_format": "NHWC"}))
    check(
        door,
        Case("GroupNorm", [x, gamma, beta], [out, mean, var.float()], {**options, "data_format": "NCHW"}),
    )
    silu = Case(
        "GroupNormSilu",
        [x, gamma, beta],
        [F.silu(y).detach().float(), mean, rstd],
        {"num_groups": 3, "eps": 1e-5},
    )
    check(door, silu)
    wanted = {"dx_is_require": True, "dgamma_is_require": True, "dbeta_is_require": True}
    inputs = [dy.view(2, 6, 12), mean, rstd, x.view(2, 6, 12), gamma]
    dx, dw, db = grads(y, dy, a, w, b)
    want = [dx.view(2, 6, 12), dw, db]
    check(door, Case("GroupNormGrad", inputs, want, {"num_groups": 3, "data_format": "NCHW", **wanted}, 1e-4))


def batch(shape=(4, 3, 5, 2)):
    return torch.randn(shape), *(torch.rand(shape[1]) + 0.5 for _ in range(4))


def test_batch_norm_in_training(door):
    x, weight, bias, mean, var = batch()
    new_mean, new_var = mean.double(), var.double()
    a, w, b = leaf(x), leaf(weight), leaf(bias)
    y = F.batch_norm(a, new_mean, new_var, w, b, True, 0.2, 1e-5)
    flat = x.double().transpose(0, 1).reshape(3, -1)
    save, spread = flat.mean(1).float(), flat.var(1, correction=0)
    rstd = (spread + 1e-5).rsqrt().float()
    out = y.detach().float()
    device = [t.npu() for t in (x, weight, bias, mean, var)]
    outputs = [blank(out), device[3], device[4], blank(save), blank(rstd)]
    options = {"epsilon": 1e-5, "momentum": 0.2, "is_training": True}
    assert call(door, "BatchNormV3", device, outputs, options) == 0
    for got, want in zip(outputs, [out, new_mean.float(), new_var.float(), save, rstd], strict=True):
        equal(got.cpu(), want)

    sums = [flat.sum(1).float(), flat.square().sum(1).float()]
    check(door, Case("BNTrainingReduce", [x], sums, {}, 1e-4))
    fresh = [t.npu() for t in (x, *sums, weight, bias, mean, var)]
    outputs = [blank(out), fresh[5], fresh[6], blank(save), blank(save)]
    assert call(door, "BNTrainingUpdate", fresh, outputs, {"factor": 0.2, "epsilon": 1e-5}) == 0
    for got, want in zip(
        outputs, [out, new_mean.float(), new_var.float(), save, spread.float()], strict=True
    ):
        equal(got.cpu(), want, 1e-4)

    dy = torch.randn_like(x)
    dx, dw, db = grads(y, dy, a, w, b)
    inputs = [dy, x, weight, mean, var, save, rstd]
    check(door, Case("BatchNormGradV3", inputs, [dx, dw, db], {"is_training": True, "epsilon": 1e-5}, 1e-4))
    for name in ("BNTrainingUpdateGrad", "BN3DTrainingUpdateGrad"):
        check(door, Case(name, [dy, x, save, spread.float()], [dw, db], {"epsilon": 1e-5}, 1e-4))
    reduced = [dy, x, dw, db, weight, save, spread.float()]
    check(door, Case("BNTrainingReduceGrad", reduced, [dx], {"epsilon": 1e-5}, 1e-4))


def test_batch_norm_in_inference(door):
    x, weight, bias, mean, var = batch()
    a = leaf(x)
    y = F.batch_norm(a, mean.double(), var.double(), weight.double(), bias.double(), False, 0, 1e-5)
    check(door, Case("BNInfer", [x, weight, bias, mean, var], [y.detach().float()], {"epsilon": 1e-5}))
    dy = torch.randn_like(x)
    check(door, Case("BNInferGrad", [dy, weight, var], grads(y, dy, a), {"epsilon": 1e-5}))


# --- pooling and resizing ---

POOLS = [([2, 3], [2, 1], [0, 0]), ([3, 3], [2, 2], [1, 1]), ([2, 2], [1, 2], [1, 0])]


@pytest.mark.parametrize(("kernel", "stride", "pad"), POOLS)
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("dtype", [F32, torch.float16], ids=str)
def test_pooling_as_torchair_writes_it(door, kernel, stride, pad, ceil, dtype):
    x = sample((2, 3, 9, 8), -2, 2, dtype)
    a = leaf(x)
    pads = [pad[0], pad[0], pad[1], pad[1]]
    window = {"ksize": [1, 1, *kernel], "strides": [1, 1, *stride], "padding_mode": "CALCULATED", "pads": pads,
              "data_format": "NCHW", "global_pooling": False, "ceil_mode": ceil}  # fmt: skip
    largest = F.max_pool2d(a, kernel, stride, pad, 1, ceil)
    check(door, Case("MaxPoolV3", [x], [largest.detach().to(dtype)], window))
    dy = torch.randn_like(largest).to(dtype)
    for exclusive, divisor in ((True, 0), (False, 0), (False, 5)):
        y = F.avg_pool2d(a, kernel, stride, pad, ceil, not exclusive, divisor or None)
        options = {**window, "exclusive": exclusive, "divisor_override": divisor}
        check(door, Case("AvgPoolV2", [x], [y.detach().to(dtype)], options))
        dx = torch.autograd.grad(y, a, dy.double())[0].to(dtype)
        check(door, Case("AvgPoolV2Grad", [ints(*x.shape), dy], [dx], options))


@pytest.mark.parametrize(("kernel", "stride", "pad"), POOLS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_pooling_with_places(door, kernel, stride, pad, version):
    x = torch.randn(2, 3, 9, 8)
    a = leaf(x)
    y, places = F.max_pool2d(a, kernel, stride, pad, return_indices=True)
    dy = torch.randn_like(y).float()
    four = (lambda v: [1, *v, 1]) if version < 3 else list
    options = {"ksize": four(kernel), "strides": four(stride), "pads": four(pad), "dtype": 3,
               "dilation": four([1, 1]), "ceil_mode": False}  # fmt: skip
    index = places.int()
    check(door, Case(f"MaxPoolWithArgmaxV{version}", [x], [y.detach().float(), index], options))
    back = Case(f"MaxPoolGradWithArgmaxV{version}", [x, dy, index], grads(y, dy, a), options)
    check(door, back)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_pooling_as_tensorflow_writes_it(door, layout, padding):
    x = torch.randn(2, 3, 7, 8)
    a = leaf(x)
    out = [4, 3] if padding == "SAME" else [3, 2]
    pads = [0, 0, 0, 0]
    if padding == "SAME":  # heights 7 by 2 (3 wide), widths 8 by 3 (3 wide): one before and after, one after
        pads = [0, 1, 1, 1]
    padded = F.pad(a, pads, value=-math.inf)
    largest = F.max_pool2d(padded, 3, [2, 3])
    assert list(largest.shape[2:]) == out
    ones = F.avg_pool2d(F.pad(torch.ones_like(a), pads), 3, [2, 3], divisor_override=1)
    mean = F.avg_pool2d(F.pad(a, pads), 3, [2, 3], divisor_override=1) / ones
    order = (0, 2, 3, 1) if layout == "NHWC" else (0, 1, 2, 3)

    def turn(v):
        return v.detach().permute(*order).contiguous().float()

    size, step = ([1, 3, 3, 1], [1, 2, 3, 1]) if layout == "NHWC" else ([1, 1, 3, 3], [1, 1, 2, 3])
    options = {"ksize": size, "strides": step, "padding": padding, "data_format": layout}
    check(door, Case("MaxPool", [turn(x)], [turn(largest)], options))
    check(door, Case("AvgPool", [turn(x)], [turn(mean)], options))
    dy = torch.randn_like(largest)
    dx = torch.autograd.grad(largest, a, dy, retain_graph=True)[0]
    check(door, Case("MaxPoolGrad", [turn(x), turn(largest), turn(dy)], [turn(dx)], options))
    shape = ints(*turn(x).shape)
    mean_dx = torch.autograd.grad(mean, a, dy)[0]
    check(door, Case("AvgPoolGrad", [shape, turn(dy)], [turn(mean_dx)], options))


def test_adaptive_pooling(door):
    x = torch.randn(2, 3, 7, 5)
    a = leaf(x)
    y = F.adaptive_avg_pool2d(a, (3, 2))
    dy = torch.randn(2, 3, 3, 2)
    check(door, Case("AdaptiveAvgPool2d", [x], [y.detach().float()], {"output_size": [3, 2]}))
    check(door, Case("AdaptiveAvgPool2dGrad", [dy], grads(y, dy, a), {"orig_input_shape": [2, 3, 7, 5]}))


def test_resizing(door):
    x, dy = torch.randn(1, 2, 4, 5), torch.randn(1, 2, 7, 3)
    a = leaf(x)
    for corners in (False, True):
        y = F.interpolate(a, (7, 3), mode="bilinear", align_corners=corners)
        options = {"align_corners": corners, "half_pixel_centers": not corners, "scales": [0.0, 0.0]}
        check(door, Case("ResizeBilinearV2", [x, ints(7, 3)], [y.detach().float()], {**options, "dtype": 0}))
        check(door, Case("ResizeBilinearV2Grad", [dy, x], grads(y, dy, a), options))
    for mode in ("nearest", "nearest-exact"):
        y = F.interpolate(a, (7, 3), mode=mode)
        options = {"align_corners": False, "half_pixel_centers": mode != "nearest", "scales": [0.0, 0.0]}
        check(door, Case("ResizeNearestNeighborV2", [x, ints(7, 3)], [y.detach().float()], options))
        check(door, Case("ResizeNearestNeighborV2Grad", [dy, ints(4, 5)], grads(y, dy, a), options))


# --- convolutions that torch_npu does not send itself ---


def test_convolutions_by_attributes(door):
    x, w, bias = torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 3), torch.randn(6)
    a, k = leaf(x), leaf(w)
    y = F.conv2d(a, k, bias.double(), 2, 1, 1, 2)
    options = {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "groups": 2,
               "data_format": "NCHW"}  # fmt: skip
    check(door, Case("Conv2D", [x, w, bias, None], [y.detach().float()], {**options, "offset_x": 0}))
    dy = torch.randn_like(y).float()
    dx, dw = grads(y, dy, a, k)
    check(door, Case("Conv2DBackpropInputD", [w, dy], [dx], {**options, "input_size": list(x.shape)}, 1e-4))
    check(door, Case("Conv2DBackpropFilterD", [x, dy], [dw], {**options, "filter_size": list(w.shape)}, 1e-4))
    depth = torch.randn(4, 1, 3, 3)
    want = F.conv2d(x.double(), depth.double(), None, 1, 1, 1, 4).float()
    plain = {"strides": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "pads": [1, 1, 1, 1], "data_format": "NCHW"}
    check(door, Case("DepthwiseConv2D", [x, depth], [want], plain))


def test_convolutions_with_channels_last_and_uneven_padding(door):
    x, w = torch.randn(2, 7, 6, 4), torch.randn(3, 2, 4, 5)
    a, k = leaf(x), leaf(w)
    padded = F.pad(a, (0, 0, 1, 0, 0, 2))
    y = F.conv2d(padded.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1), None, (2, 1), 0, (1, 2)).permute(
        0, 2, 3, 1
    )
    options = {"strides": [1, 2, 1, 1], "pads": [0, 2, 1, 0], "dilations": [1, 1, 2, 1], "groups": 1,
               "data_format": "NHWC"}  # fmt: skip
    check(door, Case("Conv2D", [x, w, None, None], [y.detach().float()], {**options, "offset_x": 0}, 1e-4))
    dy = torch.randn(y.shape)
    dx, dw = grads(y, dy, a, k)
    check(door, Case("Conv2DBackpropInput", [ints(*x.shape), w, dy], [dx], options, 1e-4))
    check(door, Case("Conv2DBackpropFilter", [x, ints(*w.shape), dy], [dw], options, 1e-4))


def test_the_gradient_of_a_convolution_takes_doubles(door):
    matrix, rhs = torch.randn(2, 3, 4).double(), torch.randn(2, 4, 5).double()
    options = {"strides": [1] * 4, "pads": [0] * 4, "dilations": [1] * 4, "groups": 2, "data_format": "NCHW"}
    filters, dy = matrix.mT.reshape(8, 3, 1, 1).contiguous(), rhs.reshape(1, 8, 1, 5)
    want = (matrix @ rhs).reshape(1, 6, 1, 5)
    check(door, Case("Conv2DBackpropInput", [ints(1, 6, 1, 5), filters, dy], [want], options))


# --- losses ---


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(door, reduction):
    x, t = torch.rand(4, 5) * 0.8 + 0.1, torch.rand(4, 5)
    weight = torch.rand(5) + 0.5
    how = {"reduction": reduction}

    def both(name, function, inputs=(), extra=None, gradient=True):
        a = leaf(x)
        y = function(a)
        dy = torch.rand_like(y).float()
        options = {**how, **(extra or {})}
        check(door, Case(name, [x, t, *inputs], [y.detach().float()], options))
        return a, y, dy

    a, y, dy = both("MseLoss", lambda v: F.mse_loss(v, t.double(), reduction=reduction))
    check(door, Case("MseLossGrad", [x, t, dy], grads(y, dy, a), how))
    both(
        "SmoothL1LossV2",
        lambda v: F.smooth_l1_loss(v, t.double(), reduction=reduction, beta=0.3),
        extra={"sigma": 0.3},
    )
    a, y, dy = both("SmoothL1LossV2", lambda v: F.smooth_l1_loss(v, t.double(), reduction=reduction))
    check(door, Case("SmoothL1LossGradV2", [x, t, dy], grads(y, dy, a), how))
    both("SoftMarginLoss", lambda v: F.soft_margin_loss(v, t.double(), reduction=reduction))
    both("KLDiv", lambda v: F.kl_div(v, t.double(), reduction=reduction))
    wide = weight.double()
    a, y, dy = both(
        "BinaryCrossEntropy",
        lambda v: F.binary_cross_entropy(v, t.double(), wide, reduction=reduction),
        [weight],
    )
    check(door, Case("BinaryCrossEntropyGrad", [x, t, dy, weight], grads(y, dy, a), how, 1e-4))

    def logits(v):
        return F.binary_cross_entropy_with_logits(v, t.double(), wide, pos_weight=wide, reduction=reduction)

    a, y, dy = both("SigmoidCrossEntropyWithLogitsV2", logits, [weight, weight])
    check(door, Case("SigmoidCrossEntropyWithLogitsGradV2", [x, t, dy, weight, weight], grads(y, dy, a), how))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("label_type", [torch.int32, torch.int64], ids=str)
def test_negative_log_likelihood(door, reduction, label_type):
    x, label, weight = torch.randn(4, 5).log_softmax(1), ints(1, 4, -100, 0), torch.rand(5) + 0.5
    a = leaf(x)
    y = F.nll_loss(a, label, weight.double(), reduction=reduction)
    total = weight[ints(1, 4, 0)].sum() if reduction != "none" else scalar(0.0, F32)
    options = {"reduction": reduction, "ignore_index": -100}
    labels = label.to(label_type)
    check(door, Case("NLLLoss", [x, labels, weight], [y.detach().float(), total], options))
    dy = torch.rand_like(y).float()
    check(door, Case("NLLLossGrad", [x, dy, labels, weight, total], grads(y, dy, a), options))


def test_cross_entropies(door):
    x, label, t = torch.randn(4, 5), ints(1, 4, 2, 0), torch.rand(4, 5)
    a = leaf(x)
    y = F.cross_entropy(a, label, reduction="none")
    backprop = grads(y, torch.ones(4), a)
    check(
        door, Case("SparseSoftmaxCrossEntropyWithLogits", [x, label.int()], [y.detach().float(), *backprop])
    )
    a = leaf(x)
    y = F.binary_cross_entropy_with_logits(a, t.double(), reduction="none")
    check(door, Case("SigmoidCrossEntropyWithLogits", [x, t], [y.detach().float()]))
    dy = torch.rand(4, 5)
    check(door, Case("SigmoidCrossEntropyWithLogitsGrad", [x, t, dy], grads(y, dy, a)))
