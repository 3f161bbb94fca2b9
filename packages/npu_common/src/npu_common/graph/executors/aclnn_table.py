"""How each GE operator is said in aclnn: a line per operator, in the order of the aclnn function's parameters.

    x1           the input x1 (a list where the input is dynamic; a number, list or scalar where the parameter is one)
    x1^adj_x1    the input, its last two dimensions swapped if the attribute says so
    axes!        the values of a constant input, at least one
    axes[0]      the only value of a constant input or of a list attribute
    .keep_dims   an attribute;  .approximate{none:0,tanh:1} translated
    =y           an output;  #y its data type
    ends(x)      a function of aclnn.FUNCTIONS
    -            nothing (a null pointer)
    1, true      a number, a truth value

After `~`: attributes that say nothing about the result beyond its type. After `where`: what attributes have to be, and
whether an output's `#y` is an integer.
Every other input must be absent and every other attribute at its default, else the line does not fit: nothing is
dropped in silence. Lines are tried in order. Several calls are separated by `;`.
"""

_UNARY = (
    "Abs Neg Sign Sqrt Rsqrt Reciprocal Square Exp Expm1 Log Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh "
    "Acosh Atanh Erf Erfc Sigmoid Relu Selu Gelu FastGelu Mish Floor Ceil Round LogicalNot IsInf IsFinite"
)
_BINARY = {
    "Mul": "Mul", "RealDiv": "Div", "FloorDiv": "FloorDivide", "FloorMod": "RemainderTensorTensor",
    "Mod": "FmodTensor", "TruncateMod": "FmodTensor", "Maximum": "Maximum", "Minimum": "Minimum",
    "Pow": "PowTensorTensor", "Atan2": "Atan2", "Equal": "EqTensor", "NotEqual": "NeTensor", "Less": "LtTensor",
    "LessEqual": "LeTensor", "Greater": "GtTensor", "GreaterEqual": "GeTensor", "LogicalAnd": "LogicalAnd",
    "LogicalOr": "LogicalOr", "BitwiseAnd": "BitwiseAndTensor", "BitwiseOr": "BitwiseOrTensor",
    "BitwiseXor": "BitwiseXorTensor", "Xlogy": "XLogYTensor",
}  # fmt: skip

# Only the name of the memory changes: no call at all.
VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze", "ExpandDims", "Flatten", "FlattenV2", "Identity"))

_ATTENTION = (
    "aclnnFlashAttentionScoreV2(query, key, value, real_shift, drop_mask, padding_mask, atten_mask, prefix, q_start_idx,"
    " kv_start_idx, .scale_value, .keep_prob, .pre_tockens, .next_tockens, .head_num, .input_layout, .inner_precise,"
    " .sparse_mode, .pse_type, =softmax_max, =softmax_sum, =softmax_out, =attention_out)"
)
_ATTENTION_GRAD = (
    "aclnnFlashAttentionScoreGradV2(query, key, value, dy, pse_shift, drop_mask, padding_mask, atten_mask, softmax_max,"
    " softmax_sum, softmax_in, attention_in, prefix, q_start_idx, kv_start_idx, .scale_value, .keep_prob, .pre_tockens,"
    " .next_tockens, .head_num, .input_layout, .inner_precise, .sparse_mode, .pse_type, =dq, =dk, =dv, =dpse)"
)
_PROMPT = (
    "aclnnPromptFlashAttention(query, key, value, pse_shift, atten_mask, actual_seq_lengths, .num_heads, .scale_value,"
    " .pre_tokens, .next_tokens, .input_layout, .num_key_value_heads, =attention_out)"
)
_INCREMENTAL = (
    "aclnnIncreFlashAttention(query, key, value, pse_shift, atten_mask, actual_seq_lengths, .num_heads, .scale_value,"
    " .input_layout, .num_key_value_heads, =attention_out)"
)
_CONV2D = (
    "aclnnConvolution(x, filter, bias, spatial(strides), symmetric(pads), spatial(dilations), false, zeros(pads), .groups,"
    " =y, 0) where data_format=NCHW"
)
_STRIDED = (
    "aclnnStridedSlice(x, begin, end, strides, .begin_mask, .end_mask, .ellipsis_mask, .new_axis_mask,"
    " .shrink_axis_mask, =y)"
)
_MATMUL = (
    "aclnnMatmul(x1^transpose_x1, x2^transpose_x2, =y, 0)",
    "aclnnAddmm(bias, x1^transpose_x1, x2^transpose_x2, 1, 1, =y, 0)",
)
_BATCH_MATMUL = ("aclnnMatmul(x1^adj_x1, x2^adj_x2, =y, 0)",)
_GATED_NORM = "gamma, beta, .epsilon, =y, =mean, =rstd)"

LINES: dict[str, tuple[str, ...]] = {
    **{name: (f"aclnn{name}(x, =y)",) for name in _UNARY.split()},
    **{name: (f"aclnn{to}(x1, x2, =y)",) for name, to in _BINARY.items()},
    "Div": ("aclnnDivMod(x1, x2, 1, =y) where #y=integer", "aclnnDiv(x1, x2, =y)"),  # integers: towards zero
    "Erfinv": ("aclnnErfinv(input_x, =output_y)",),
    "Trunc": ("aclnnTrunc(input_x, =output_y)",),
    "HardSwish": ("aclnnHardswish(x, =y)",),
    "HardSigmoid": ("aclnnHardsigmoid(input_x, =output_y)",),
    "Relu6": ("aclnnHardtanh(x, 0, 6, =y)",),
    "Elu": ("aclnnElu(x, .alpha, .scale, .input_scale, =y)",),
    "LeakyRelu": ("aclnnLeakyRelu(x, .negative_slope, =y)",),
    "Swish": ("aclnnSwish(x, .scale, =y)",),
    "GeluV2": ("aclnnGeluV2(x, .approximate{none:0,tanh:1}, =y)",),
    "Softplus": ("aclnnSoftplus(x, 1, 20, =y)",),
    "Invert": ("aclnnBitwiseNot(x, =y)",),
    "ZerosLike": ("aclnnInplaceZero(=y) ~x",),
    "OnesLike": ("aclnnInplaceOne(=y) ~x",),
    "Muls": ("aclnnMuls(x, .value, =y)",),
    "Adds": ("aclnnAdds(x, .value, 1, =y)",),
    "ClipByValue": ("aclnnClampTensor(x, clip_value_min, clip_value_max, =y)",),
    "ClipByValueV2": ("aclnnClampTensor(x, clip_value_min, clip_value_max, =y)",),
    "Cast": ("aclnnCast(x, .dst_type, =y)",),
    # Binary and n-ary.
    "Add": ("aclnnAdd(x1, x2, 1, =y)",),
    "AddV2": ("aclnnAdd(x1, x2, 1, =y)",),
    "Sub": ("aclnnSub(x1, x2, 1, =y)",),
    "Axpy": ("aclnnAdd(x1, x2, .alpha, =y)",),
    "BiasAdd": (
        "aclnnAdd(x, bias, 1, =y) where data_format=NHWC",
        "aclnnBiasAdd(x, bias, .data_format, =y)",
    ),
    "AddN": ("aclnnAddN(x, =y) ~N",),
    "Addcmul": ("aclnnAddcmul(input_data, x1, x2, value, =y)",),
    "Addcdiv": ("aclnnAddcdiv(input_data, x1, x2, value, =y)",),
    "Select": ("aclnnSWhere(condition, x1, x2, =y)",),
    "SelectV2": ("aclnnSWhere(condition, then, else, =result)",),
    "SquaredDifference": ("aclnnSub(x1, x2, 1, =y); aclnnMul(=y, =y, =y)",),
    "IsNan": ("aclnnNeTensor(x, x, =y)",),  # only NaN differs from itself
    "MaskedScatter": ("aclnnInplaceCopy(=y, x); aclnnInplaceMaskedScatter(=y, mask, updates)",),
    "Lerp": ("aclnnLerp(start, end, weight, =y)",),
    "MaskedFill": ("aclnnInplaceCopy(=y, x); aclnnInplaceMaskedFillTensor(=y, mask, value)",),
    # Gradients.
    "ReluGrad": ("aclnnThresholdBackward(gradients, features, 0, =backprops)",),
    "SigmoidGrad": ("aclnnSigmoidBackward(dy, y, =z)",),
    "TanhGrad": ("aclnnTanhBackward(dy, y, =z)",),
    "SwishGrad": ("aclnnSwishBackward(grad, x, .scale, =grad_x) ~y",),
    "LeakyReluGrad": ("aclnnLeakyReluBackward(gradients, features, .negative_slope, false, =backprops)",),
    "SoftplusGrad": ("aclnnSoftplusBackward(gradients, features, 1, 20, =backprops)",),
    "SoftmaxGrad": ("aclnnSoftmaxBackward(grad_softmax, softmax, axes[0], =grad_x)",),
    "ThresholdGradV2D": ("aclnnThresholdBackward(gradients, features, .threshold, =backprops)",),
    "EluGrad": ("aclnnEluBackward(grads, 1, 1, 1, true, activations, =y)",),
    "LogSoftmaxGrad": ("aclnnLogSoftmaxBackward(grad, x, axis[0], =y)",),
    "LayerNormGradV3": (
        "aclnnLayerNormBackward(dy, x, shape(gamma), mean, rstd, gamma, -, three(gamma), =pd_x, =pd_gamma, =pd_beta)"
        " ~output_mask",
    ),
    "RotaryMulGrad": ("aclnnRotaryPositionEmbeddingGrad(dy, r1, r2, x, 0, =dx, =dr1, =dr2)",),
    "NLLLossGrad": (
        "aclnnNLLLossBackward(y_grad, x, target, weight, .reduction{none:0,mean:1,sum:2}, .ignore_index, total_weight,"
        " =x_grad)",
    ),
    # Reductions.
    "ReduceSum": ("aclnnReduceSum(x, axes!, .keep_dims, #y, =y)",),
    "ReduceMean": ("aclnnMean(x, axes!, .keep_dims, #y, =y)",),
    "ReduceMax": ("aclnnAmax(x, axes!, .keep_dims, =y)",),
    "ReduceMin": ("aclnnAmin(x, axes!, .keep_dims, =y)",),
    "ReduceProd": ("aclnnProdDim(x, axes[0], .keep_dims, #y, =y)",),
    "ReduceAll": ("aclnnAll(x, axes!, .keep_dims, =y)",),
    "ReduceAny": ("aclnnAny(x, axes!, .keep_dims, =y)",),
    "ReduceLogSumExp": ("aclnnLogSumExp(x, axes!, .keep_dims, =y)",),
    "ReduceSumD": ("aclnnReduceSum(x, .axes, .keep_dims, #y, =y)",),
    "ReduceMeanD": ("aclnnMean(x, .axes, .keep_dims, #y, =y)",),
    "ReduceMaxD": ("aclnnAmax(x, .axes, .keep_dims, =y)",),
    "ReduceMinD": ("aclnnAmin(x, .axes, .keep_dims, =y)",),
    "ArgMaxV2": ("aclnnArgMax(x, dimension[0], false, =y) ~dtype",),
    "ArgMaxD": ("aclnnArgMax(x, .dimension, false, =y) ~dtype",),
    "ArgMin": ("aclnnArgMin(x, dimension[0], false, =y) ~dtype",),
    "ArgMinD": ("aclnnArgMin(x, .dimension, false, =y) ~dtype",),
    "Cumsum": ("aclnnCumsum(x, axis[0], #y, =y)",),
    "Cumprod": ("aclnnCumprod(x, axis[0], #y, =y)",),
    "Cummax": ("aclnnCummax(x, .dim, =y, =indices)",),
    "Cummin": ("aclnnCummin(x, .axis, =y, =indices)",),
    "TopKV2": ("aclnnTopk(x, k[0], .dim, .largest, .sorted, =values, =indices) ~indices_dtype",),
    "TopK": ("aclnnTopk(x, k[0], .dim, .largest, .sorted, =values, =indices)",),
    "Sort": ("aclnnSort(x, .stable, .axis, .descending, =y1, =y2) ~y2_dtype",),
    "SoftmaxV2": ("aclnnSoftmax(x, axes[0], =y)",),
    "LogSoftmaxV2": ("aclnnLogSoftmax(logits, axes[0], =logsoftmax)",),
    # Movement.
    "Transpose": ("aclnnPermute(x, perm, =y)",),
    "TransposeD": ("aclnnPermute(x, .perm, =y)",),
    "BroadcastTo": ("aclnnExpand(x, shape, =y)",),
    "Tile": ("aclnnRepeat(x, multiples, =y)",),
    "ConcatV2": ("aclnnCat(x, concat_dim[0], =y) ~N",),
    "Concat": ("aclnnCat(x, concat_dim[0], =y) ~N",),
    "ConcatD": ("aclnnCat(x, .concat_dim, =y) ~N",),
    "ConcatV2D": ("aclnnCat(x, .concat_dim, =y) ~N",),
    "Pack": ("aclnnStack(x, .axis, =y) ~N",),
    "Split": ("aclnnSplitWithSize(x, sizes(split_dim), split_dim[0], =y) ~num_split",),
    "SplitD": ("aclnnSplitWithSize(x, sizes(split_dim), .split_dim, =y) ~num_split",),
    "SplitV": ("aclnnSplitWithSize(x, sizes(split_dim), split_dim[0], =y) ~num_split ~size_splits",),
    "SplitVD": ("aclnnSplitWithSize(x, sizes(split_dim), .split_dim, =y) ~num_split ~size_splits",),
    "Slice": ("aclnnSliceV2(x, offsets, ends(offsets), iota(offsets), ones(offsets), =y) ~size",),
    "StridedSlice": (_STRIDED,),
    "StridedSliceV2": ("aclnnSliceV2(x, begin, end, axes!, strides!, =y)",),
    "Pad": ("aclnnConstantPadNd(x, pads(paddings), 0, =y)",),
    "PadV2": ("aclnnConstantPadNd(x, pads(paddings), constant_values, =y)",),
    "PadV3": (
        "aclnnConstantPadNd(x, pads(paddings), constant_values, =y) where mode=constant",
        "aclnnConstantPadNd(x, pads(paddings), 0, =y) where mode=constant",
    ),
    "ReverseV2": ("aclnnFlip(x, axis, =y)",),
    "Roll": ("aclnnRoll(x, .shifts, .dims, =y)",),
    "Triu": ("aclnnTriu(x, .diagonal, =y)",),
    "Tril": ("aclnnTril(x, .diagonal, =y)",),
    # Indexing.
    "GatherV2": ("aclnnGatherV2(x, axis[0], indices, =y) ~is_preprocessed ~negative_index_support",),
    "Gather": (
        "aclnnGatherV2(x, 0, indices, =y) ~validate_indices ~is_preprocessed ~negative_index_support",
    ),
    "ScatterElements": ("aclnnScatter(data, .axis, indices, updates, .reduction{none:0,add:1,mul:2}, =y)",),
    "OneHot": ("aclnnOneHot(x, depth[0], on_value, off_value, .axis, =y)",),
    "GatherNd": ("aclnnGatherNd(x, indices, .negative_index_support, =y)",),
    "GatherElements": ("aclnnGather(x, .dim, index, =y)",),
    "MaskedSelect": ("aclnnMaskedSelect(x, mask, =y)",),
    "ScatterNdUpdate": (
        "aclnnInplaceCopy(=var, var); aclnnScatterNdUpdate(=var, indices, updates) ~use_locking",
    ),
    "TensorScatterUpdate": ("aclnnInplaceCopy(=y, x); aclnnScatterNdUpdate(=y, indices, updates)",),
    "EmbeddingDenseGrad": (
        "aclnnEmbeddingDenseBackward(grad, indices, .num_weights, .padding_idx, .scale_grad_by_freq, =y)",
    ),
    # Creation.
    "Fill": ("aclnnInplaceFillTensor(=y, value) ~dims",),
    # aclnnRange would include the limit.
    "Range": ("aclnnArange(start, limit, delta, =y)",),
    "LinSpace": ("aclnnLinspace(start, stop, num[0], =output)",),
    "Eye": ("aclnnEye(.num_rows, .num_columns, =y) ~dtype",),
    # Products. cubeMathType 0: keep the inputs' precision.
    **dict.fromkeys(("MatMul", "MatMulV2", "MatMulV3"), _MATMUL),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _BATCH_MATMUL),
    "Einsum": ("aclnnEinsum(x, .equation, =y) ~N",),
    "MatrixInverse": ("aclnnInverse(x, =y)",),
    "Cholesky": ("aclnnLinalgCholesky(x, false, =y)",),
    # Normalisation and attention.
    "LayerNormV3": (f"aclnnLayerNorm(x, tail(begin_norm_axis), {_GATED_NORM} ~begin_params_axis",),
    "LayerNormV4": (f"aclnnLayerNorm(x, normalized_shape, {_GATED_NORM}",),
    "RmsNorm": ("aclnnRmsNorm(x, gamma, .epsilon, =y, =rstd)",),
    "RmsNormGrad": ("aclnnRmsNormGrad(dy, x, rstd, gamma, =dx, =dgamma)",),
    "AddRmsNorm": ("aclnnAddRmsNorm(x1, x2, gamma, .epsilon, =y, =rstd, =x)",),
    "FlashAttentionScore": (_ATTENTION,),
    "FlashAttentionScoreGrad": (_ATTENTION_GRAD,),
    "PromptFlashAttention": (_PROMPT,),
    "IncreFlashAttention": (_INCREMENTAL,),
    "RotaryMul": ("aclnnRotaryPositionEmbedding(x, r1, r2, 0, =y)",),
    "SwiGlu": ("aclnnSwiGlu(x, .dim, =y)",),
    "SwiGluGrad": ("aclnnSwiGluGrad(y_grad, x, .dim, =x_grad)",),
    "GeGluV2": ("aclnnGeGluV3(x, .dim, .approximate, .activate_left, =y, =gelu)",),
    "NLLLoss": (
        "aclnnNLLLoss(x, target, weight, .reduction{none:0,mean:1,sum:2}, .ignore_index, =y, =total_weight)",
    ),
    "SigmoidCrossEntropyWithLogits": ("aclnnBinaryCrossEntropyWithLogits(predict, target, -, -, 0, =loss)",),
    # Vision, in the layout aclnn has.
    "Conv2D": (_CONV2D,),
    "AdaptiveAvgPool2d": ("aclnnAdaptiveAvgPool2d(x, .output_size, =y)",),
    # State: the result is the reference itself.
    "Assign": ("aclnnInplaceCopy(ref, value) ~validate_shape ~use_locking",),
}
