#include <algorithm>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

Dims broadcast_all(const Context& c) {
    Dims out;
    for (const Operand& operand : c.inputs()) {
        if (!operand.type.present()) continue;
        if (!operand.type.ranked) c.unknown();
        out = broadcast(c, out, operand.type.dims);
    }
    return out;
}

void unary(Context& c) { c.out(c.in(0).type); }

/// Integers come out as float32.
void log(Context& c) {
    bool real = c.op.outputs[0].types.empty() ||
                std::ranges::find(c.op.outputs[0].types, c.dtype("x")) != c.op.outputs[0].types.end();
    c.out(real ? c.dtype("x") : ACL_FLOAT, [&] { return c.dims("x"); });
}

void unary_to_bool(Context& c) {
    c.out(ACL_BOOL, [&] { return c.dims(0); });
}

void unary_to_bytes(Context& c) {
    c.out(ACL_UINT8, [&] { return c.dims(0); });
}

void cast(Context& c) {
    DataType to = c.type("dst_type");
    if (to == ACL_DT_UNDEFINED) c.fail("its attribute \"dst_type\" names no data type");
    c.out(to, [&] { return c.dims("x"); });
}

/// Any number of operands of one data type.
void elementwise(Context& c) {
    c.out(common_dtype(c), [&] { return broadcast_all(c); });
}

void comparison(Context& c) {
    common_dtype(c);
    c.out(ACL_BOOL, [&] { return broadcast_all(c); });
}

void promoting(Context& c) {
    c.out(promoted(c, c.dtype(0), c.dtype(1)), [&] { return broadcast(c, c.dims(0), c.dims(1)); });
}

void axpy_v2(Context& c) {
    c.out(promoted(c, promoted(c, c.dtype("x1"), c.dtype("x2")), c.dtype("alpha")),
          [&] { return broadcast(c, c.dims("x1"), c.dims("x2")); });
}

/// Shaped like the first input; what the others have to be is the operator's own matter.
void like_first(Context& c) { c.out(c.in(0).type); }

void bias_add(Context& c) {
    common_dtype(c);
    c.out(c.dtype("x"), [&] {
        Dims x = c.dims("x"), bias = c.dims("bias");
        if (x.size() < 2 || bias.size() != 1) c.fail("x should have two dimensions or more, and bias one");
        bool channels_second = c.text("data_format").starts_with("NC");
        if (!same_size(bias[0], channels_second ? x[1] : x.back()))
            c.fail("bias has not as many elements as x has channels");
        return x;
    });
}

void bias_add_grad(Context& c) {
    c.out(c.dtype("x"), [&] {
        const Dims& x = c.dims("x");
        if (x.size() < 2) c.fail("x should have two dimensions or more");
        return Dims{c.text("data_format").starts_with("NC") ? x[1] : x.back()};
    });
}

void add_n(Context& c) {
    if (c.inputs().empty()) c.fail("it needs at least one input");
    c.out(common_dtype(c), [&] {
        Dims out = c.dims(0);
        for (const Operand& operand : c.all("x")) {
            if (!operand.type.ranked) c.unknown();
            out = agreed(c, out, operand.type.dims);
        }
        return out;
    });
}

/// Select: the condition is as large as x1, or one element, or one a row.
void select(Context& c) {
    if (c.dtype("x1") != c.dtype("x2")) c.fail("x1 and x2 differ in data type");
    c.out(c.dtype("x1"), [&] {
        Dims x = agreed(c, c.dims("x1"), c.dims("x2"));
        const Dims& condition = c.dims("condition");
        if (condition.size() == x.size()) return agreed(c, x, condition);
        if (condition.size() == 1 && !x.empty() && !same_size(condition[0], x[0]))
            c.fail("condition has not as many elements as x1 has rows");
        if (condition.size() > 1)
            c.fail("condition should be as large as x1, a scalar, or a vector of its rows");
        return x;
    });
}

void select_v2(Context& c) {
    if (c.dtype("then") != c.dtype("else"))
        c.fail("then and else differ in data type; put a Cast before one of them");
    c.out(c.dtype("then"), [&] { return broadcast_all(c); });
}

void masked_fill(Context& c) {
    if (c.dtype("x") != c.dtype("value"))
        c.fail("x and value differ in data type; put a Cast before one of them");
    c.out(c.dtype("x"), [&] { return broadcast(c, c.dims("x"), c.dims("mask")); });
}

/// Addcmul and Addcdiv: value is one number, or broadcasts.
void add_c(Context& c) {
    if (c.dtype("input_data") != c.dtype("x1") || c.dtype("x1") != c.dtype("x2"))
        c.fail("the inputs differ in data type; put a Cast before one of them");
    c.out(c.dtype("input_data"), [&] { return broadcast_all(c); });
}

void clip(Context& c) {
    common_dtype(c);
    c.out(c.dtype("x"), [&] {
        if (broadcast_all(c).size() > c.dims("x").size()) c.fail("the limits have more dimensions than x");
        return c.dims("x");
    });
}

/// Complex, Real, Imag, Angle: the type is an attribute.
void to_given_type(Context& c) {
    c.out(c.type("Tout"), [&] { return broadcast_all(c); });
}

/// The real or imaginary part: the type follows from the complex one, whatever the attribute's default says.
void part(Context& c) {
    DataType from = c.dtype("input"), to = from;
    if (from == ACL_COMPLEX128) to = ACL_DOUBLE;
    if (from == ACL_COMPLEX64) to = ACL_FLOAT;
    if (from == ACL_COMPLEX32) to = ACL_FLOAT16;
    c.out(to, [&] { return c.dims("input"); });
}

void complex_abs(Context& c) {
    c.out(c.dtype("x") == ACL_COMPLEX128 ? ACL_DOUBLE : ACL_FLOAT, [&] { return c.dims("x"); });
}

void angle_v2(Context& c) {
    DataType from = c.dtype("x");
    bool real = from == ACL_FLOAT16 || from == ACL_BF16;
    c.out(real ? from : ACL_FLOAT, [&] { return c.dims("x"); });
}

/// PRelu: the weights are parameters, they need not broadcast from the right.
void p_relu_grad(Context& c) {
    c.out(c.in("features").type);
    c.out(c.in("weights").type);
}

constexpr Rule kRules[] = {
    {"Abs", unary},
    {"AccumulateNV2", add_n},
    {"Acos", unary},
    {"AcosGrad", elementwise},
    {"Acosh", unary},
    {"AcoshGrad", elementwise},
    {"Add", elementwise},
    {"AddN", add_n},
    {"AddV2", elementwise},
    {"Addcdiv", add_c},
    {"Addcmul", add_c},
    {"Adds", unary},
    {"AngleV2", angle_v2},
    {"ApproximateEqual", comparison},
    {"Asin", unary},
    {"AsinGrad", elementwise},
    {"Asinh", unary},
    {"AsinhGrad", elementwise},
    {"Atan", unary},
    {"Atan2", elementwise},
    {"AtanGrad", elementwise},
    {"Atanh", unary},
    {"Axpy", elementwise},
    {"AxpyV2", axpy_v2},
    {"BesselI0e", unary},
    {"BesselI1e", unary},
    {"BiasAdd", bias_add},
    {"BiasAddGrad", bias_add_grad},
    {"BitwiseAnd", elementwise},
    {"BitwiseOr", elementwise},
    {"BitwiseXor", elementwise},
    {"Cast", cast},
    {"Ceil", unary},
    {"Celu", unary},
    {"CeluV2", unary},
    {"ClipByValue", clip},
    {"ClipByValueV2", clip},
    {"Complex", to_given_type},
    {"ComplexAbs", complex_abs},
    {"Conj", unary},
    {"Cos", unary},
    {"Cosh", unary},
    {"Div", elementwise},
    {"DivNoNan", elementwise},
    {"Dropout", unary},
    {"Elu", unary},
    {"EluGrad", elementwise},
    {"EluGradV2", elementwise},
    {"Equal", comparison},
    {"Erf", unary},
    {"Erfc", unary},
    {"Erfinv", unary},
    {"Exp", unary},
    {"Expm1", unary},
    {"FastGelu", unary},
    {"FastGeluGrad", elementwise},
    {"Fills", unary},
    {"Floor", unary},
    {"FloorDiv", elementwise},
    {"FloorMod", elementwise},
    {"FusedMulAdd", elementwise},
    {"FusedMulAddN", like_first},
    {"Gelu", unary},
    {"GeluGrad", elementwise},
    {"GeluGradV2", elementwise},
    {"GeluV2", unary},
    {"Greater", comparison},
    {"GreaterEqual", comparison},
    {"HardShrink", unary},
    {"HardShrinkGrad", elementwise},
    {"HardSigmoid", unary},
    {"HardSigmoidGrad", elementwise},
    {"HardSwish", unary},
    {"HardSwishGrad", elementwise},
    {"HardtanhGrad", elementwise},
    {"Identity", unary},
    {"Imag", part},
    {"Inv", unary},
    {"InvGrad", elementwise},
    {"Invert", unary},
    {"IsClose", comparison},
    {"IsFinite", unary_to_bool},
    {"IsInf", unary_to_bool},
    {"IsNan", unary_to_bool},
    {"IsNegInf", unary_to_bool},
    {"IsPosInf", unary_to_bool},
    {"LeakyRelu", unary},
    {"LeakyReluGrad", elementwise},
    {"LeftShift", elementwise},
    {"Lerp", elementwise},
    {"Less", comparison},
    {"LessEqual", comparison},
    {"Log", log},
    {"Log1p", unary},
    {"LogSigmoid", unary},
    {"LogSigmoidGrad", elementwise},
    {"LogicalAnd", comparison},
    {"LogicalNot", unary_to_bool},
    {"LogicalOr", comparison},
    {"Logit", unary},
    {"LogitGrad", elementwise},
    {"LpNormUpdateV2", unary},
    {"MaskedFill", masked_fill},
    {"MaskedScale", like_first},
    {"Maximum", elementwise},
    {"Minimum", elementwise},
    {"Mish", unary},
    {"MishGrad", elementwise},
    {"Mod", elementwise},
    {"Mul", promoting},
    {"MulNoNan", elementwise},
    {"Muls", unary},
    {"NanToNum", unary},
    {"Ndtri", unary},
    {"Neg", unary},
    {"NextAfter", elementwise},
    {"NotEqual", comparison},
    {"OnesLike", unary},
    {"PRelu", like_first},
    {"PReluGrad", p_relu_grad},
    {"PopulationCount", unary_to_bytes},
    {"Pow", promoting},
    {"Real", part},
    {"RealDiv", elementwise},
    {"Reciprocal", unary},
    {"ReciprocalGrad", elementwise},
    {"Relu", unary},
    {"Relu6", unary},
    {"Relu6Grad", elementwise},
    {"ReluGrad", elementwise},
    {"RightShift", elementwise},
    {"Rint", unary},
    {"Round", unary},
    {"Rsqrt", unary},
    {"RsqrtGrad", elementwise},
    {"Select", select},
    {"SelectV2", select_v2},
    {"Selu", unary},
    {"SeluGrad", elementwise},
    {"Sigmoid", unary},
    {"SigmoidGrad", elementwise},
    {"Sign", unary},
    {"Signbit", unary_to_bool},
    {"SiluGrad", elementwise},
    {"Sin", unary},
    {"Sinc", unary},
    {"Sinh", unary},
    {"SoftShrink", unary},
    {"SoftShrinkGrad", elementwise},
    {"Softplus", unary},
    {"SoftplusGrad", elementwise},
    {"SoftplusV2", unary},
    {"SoftplusV2Grad", elementwise},
    {"Softsign", unary},
    {"SoftsignGrad", elementwise},
    {"Sqrt", unary},
    {"SqrtGrad", elementwise},
    {"Square", unary},
    {"SquaredDifference", elementwise},
    {"SquaredRelu", unary},
    {"StopGradient", unary},
    {"Sub", elementwise},
    {"Swish", unary},
    {"SwishGrad", elementwise},
    {"Tan", unary},
    {"Tanh", unary},
    {"TanhGrad", elementwise},
    {"TensorMove", unary},
    {"ThresholdGradV2D", elementwise},
    {"ThresholdV2", like_first},
    {"ThresholdV2D", unary},
    {"Trunc", unary},
    {"TruncateDiv", elementwise},
    {"TruncateMod", elementwise},
    {"Xdivy", elementwise},
    {"Xlog1py", elementwise},
    {"Xlogy", elementwise},
    {"ZerosLike", unary},
};

}  // namespace

std::span<const Rule> elementwise_rules() { return kRules; }

}  // namespace npu::graph
