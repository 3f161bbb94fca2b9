"""Shapes of layers against PyTorch's own, on meta tensors."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

F32, F16, I64 = "float32", "float16", "int64"


def meta(dtype: str, dims: list[int]) -> torch.Tensor:
    return torch.empty(dims, dtype=getattr(torch, dtype), device="meta")


def f32(*dims: int) -> tuple[str, list[int]]:
    return F32, list(dims)


def f16(*dims: int) -> tuple[str, list[int]]:
    return F16, list(dims)


def value(*numbers: int) -> tuple[str, list[int], np.ndarray]:
    return I64, [len(numbers)], np.array(numbers, np.int64)


def int32s(*numbers: int) -> tuple[str, list[int], np.ndarray]:
    return "int32", [len(numbers)], np.array(numbers, np.int32)


NCHW = {"data_format": "NCHW", "strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1]}
POOL = {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "padding_mode": "CALCULATED", "pads": [1, 1, 1, 1]}


def statistics(dims: list[int], count: int) -> torch.Tensor:
    return torch.empty(dims[: len(dims) - count] + [1] * count, device="meta")


def layer_norm(x: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
    y, mean, rstd = torch.native_layer_norm(x.float(), [5], None, None, 1e-5)
    return [y.to(x.dtype), mean, rstd]


ROWS: list[tuple[str, dict[str, Any], list[Any], Callable[..., Any]]] = [
    ("Conv2D", NCHW, [f32(2, 3, 9, 8), f32(5, 3, 3, 3)], lambda x, w: functional.conv2d(x, w, None, 2, 1)),
    ("Conv2D", NCHW | {"groups": 3}, [f32(2, 6, 9, 8), f32(9, 2, 3, 3), f32(9)],
     lambda x, w, b: functional.conv2d(x, w, b, 2, 1, groups=3)),
    ("Conv2D", NCHW | {"dilations": [1, 1, 2, 2]}, [f32(2, 3, 9, 8), f32(5, 3, 3, 3)],
     lambda x, w: functional.conv2d(x, w, None, 2, 1, 2)),
    ("Conv2D", {"strides": [1, 2, 2, 1], "pads": [0, 0, 0, 0]}, [f32(2, 9, 8, 3), f32(3, 3, 3, 5)],
     lambda x, w: functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), None, 2).permute(0, 2, 3, 1)),
    ("Conv3D", {"data_format": "NCDHW", "strides": [1, 1, 1, 2, 2], "pads": [1, 1, 0, 0, 1, 1]},
     [f32(2, 3, 5, 9, 8), f32(5, 3, 3, 3, 3)], lambda x, w: functional.conv3d(x, w, None, (1, 2, 2), (1, 0, 1))),
    ("Conv2DTranspose", NCHW | {"output_padding": [0, 0, 1, 1]}, [int32s(0, 0, 0, 0), f32(2, 3, 5, 4), f32(3, 6, 3, 3)],
     lambda s, x, w: functional.conv_transpose2d(x, w, None, 2, 1, 1)),
    ("Conv2DBackpropInput", NCHW, [int32s(2, 3, 9, 8), f32(5, 3, 3, 3), f32(2, 5, 5, 4)],
     lambda s, w, g: torch.ops.aten.convolution_backward(
         g, torch.empty(2, 3, 9, 8, device="meta"), w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1,
         [True, False, False])[0]),
    ("MaxPoolV3", POOL, [f32(2, 3, 9, 8)], lambda x: functional.max_pool2d(x, 3, 2, 1)),
    ("MaxPoolV3", POOL | {"ceil_mode": True, "pads": [0, 0, 0, 0]}, [f32(2, 3, 8, 8)],
     lambda x: functional.max_pool2d(x, 3, 2, 0, ceil_mode=True)),
    ("MaxPoolV3", POOL | {"ceil_mode": True, "ksize": [1, 1, 1, 1]}, [f32(2, 3, 8, 8)],
     lambda x: torch.empty(2, 3, 5, 5)),
    ("AvgPoolV2", POOL, [f32(2, 3, 9, 8)], lambda x: functional.avg_pool2d(x, 3, 2, 1)),
    ("AvgPoolV2", POOL | {"global_pooling": True}, [f32(2, 3, 9, 8)],
     lambda x: functional.adaptive_avg_pool2d(x, 1)),
    ("MaxPoolWithArgmaxV3", {"ksize": [3, 2], "strides": [2, 2], "pads": [1, 1], "dtype": 9}, [f32(2, 3, 9, 8)],
     lambda x: list(torch.ops.aten.max_pool2d_with_indices(x, [3, 2], [2, 2], [1, 1]))),
    ("MaxPoolWithArgmaxV1", {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "pads": [1, 1, 1, 1]}, [f32(2, 3, 9, 8)],
     lambda x: [y.to(d) for y, d in zip(torch.ops.aten.max_pool2d_with_indices(x, [3, 2], [2, 2], [1, 1]),
                                        [torch.float32, torch.int32], strict=True)]),
    ("AdaptiveAvgPool2d", {"output_size": [3, 2]}, [f32(2, 3, 9, 8)],
     lambda x: functional.adaptive_avg_pool2d(x, (3, 2))),
    ("ResizeNearestNeighborV2", {}, [f32(2, 3, 9, 8), ("int32", [2], np.array([4, 5], np.int32))],
     lambda x, s: functional.interpolate(x, (4, 5))),
    ("LayerNormV4", {}, [f16(2, 3, 5), value(5)], layer_norm),
    ("LayerNormV3", {"begin_norm_axis": -1}, [f16(2, 3, 5), f16(5), f16(5)], layer_norm),
    ("RmsNorm", {}, [f16(2, 3, 5), f16(5)], lambda x, g: [functional.rms_norm(x, [5]), statistics([2, 3, 5], 1)]),
    ("GroupNormSilu", {"num_groups": 2}, [f32(3, 4, 5), f32(4), f32(4)],
     lambda x, g, b: list(torch.native_group_norm(x, g, b, 3, 4, 5, 2, 1e-5))),
    ("BatchNormV3", {}, [f32(2, 3, 4), *[f32(3)] * 4],
     lambda x, *s: [x, s[0], s[0], *torch.native_batch_norm(x, *s, True, 0.1, 1e-5)[1:]]),
    ("SwiGlu", {}, [f16(2, 6)], lambda x: functional.glu(x)),
    ("NLLLoss", {}, [f32(4, 5), (I64, [4])], lambda x, t: list(torch.ops.aten.nll_loss_forward(x, t, None, 1, -100))),
    ("NLLLoss", {"reduction": "none"}, [f32(4, 5), (I64, [4])],
     lambda x, t: list(torch.ops.aten.nll_loss_forward(x, t, None, 0, -100))),
    ("MseLoss", {}, [f32(4, 5), f32(4, 5)], functional.mse_loss),
    ("MseLoss", {"reduction": "none"}, [f32(4, 5), f32(4, 5)],
     lambda a, b: functional.mse_loss(a, b, reduction="none")),
    ("TopKV2", {"indices_dtype": 9, "dim": 0}, [f32(7, 2), ("int32", [], np.array(3, np.int32))],
     lambda x, k: list(torch.topk(x, 3, 0))),
    ("EmbeddingDenseGrad", {"num_weights": 9}, [f32(2, 3, 4), (I64, [2, 3])],
     lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 9, -1, False)),
    ("PromptFlashAttention", {"num_heads": 4, "input_layout": "BNSD"}, [f16(2, 4, 5, 8), f16(2, 4, 7, 8), f16(2, 4, 7, 6)],
     functional.scaled_dot_product_attention),
    ("MatrixTriangularSolve", {}, [f32(5, 3, 3), f32(5, 3, 2)],
     lambda a, b: torch.linalg.solve_triangular(a, b, upper=False)),
    ("ScatterElements", {}, [f32(3, 4), (I64, [2, 4]), f32(2, 4)], lambda x, i, u: x.scatter(0, i, u)),
    ("StridedSliceV2", {}, [f32(5, 6), value(1), value(9), value(-1)], lambda x, *_: x[:, 1:9]),
    ("IndexFill", {"dim": 0}, [f32(5, 6), (I64, [2]), f32(1)], lambda x, i, v: x),
    ("GatherD", {}, [f32(5, 6), value(1), (I64, [5, 2])], lambda x, d, i: x.gather(1, i)),
    ("MatrixDiag", {}, [f32(2, 3)], lambda x: torch.diag_embed(x)),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "attributes", "inputs", "layer"), ROWS, ids=[row[0] for row in ROWS])
def test_shape_and_dtype_are_torchs(
    language: ModuleType,
    operator: str,
    attributes: dict[str, Any],
    inputs: list[Any],
    layer: Callable[..., Any],
) -> None:
    result = layer(*(meta(operand[0], operand[1]) for operand in inputs))
    expected = result if isinstance(result, list) else [result]
    found = language.infer(operator, attributes, inputs)
    assert found == [(str(e.dtype).removeprefix("torch."), list(e.shape), []) for e in expected]


def test_training_attention_keeps_statistics_of_each_row(language: ModuleType) -> None:
    query = (F16, [2, 5, 4, 8])
    found = language.infer("FlashAttentionScore", {"head_num": 4, "input_layout": "BSND"}, [query] * 3)
    assert [dims for _, dims, _ in found] == [[2, 4, 5, 8], [2, 4, 5, 8], [0], [2, 5, 4, 8]]


@pytest.mark.parametrize(
    ("operator", "attributes", "dims"),
    [
        ("HcomAllReduce", {"reduction": "sum"}, [4, 3]),
        ("HcomAllGather", {"rank_size": 2}, [8, 3]),
        ("HcomReduceScatter", {"reduction": "sum", "rank_size": 2}, [2, 3]),
        ("HcomAllToAll", {}, [4, 3]),
    ],
)
def test_collectives(
    language: ModuleType, operator: str, attributes: dict[str, Any], dims: list[int]
) -> None:
    for dtype in (F32, "bfloat16"):
        assert language.infer(operator, attributes | {"group": "world"}, [(dtype, [4, 3])]) == [
            (dtype, dims, [])
        ]


def test_optimisers_write_their_references(language: ModuleType) -> None:
    inputs = [(F32, [4, 3])] * 3 + [(F32, [])] * 7 + [(F32, [4, 3])]
    found = language.infer("ApplyAdamW", {}, inputs)
    assert [dims for _, dims, _ in found] == [[4, 3]] * 3
