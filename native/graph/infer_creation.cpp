// Operators that make tensors of nothing, and those that read a shape.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

void constant(Context& c) {
    auto value = c.constant("value");
    if (!value) c.fail("its attribute \"value\" is missing");
    c.out(value->type);
}

/// The sizes that an input holds; none may be negative.
Dims shape_of(const Context& c, const char* input) {
    auto known = c.value(input);
    if (!known) return unknown_of_length(c, input);
    for (int64_t size : *known)
        if (size < 0) c.fail(std::string("its input ") + input + " holds the size " + std::to_string(size));
    return *std::move(known);
}

void fill(Context& c) {
    c.out(c.dtype("value"), [&] { return shape_of(c, "dims"); });
}

void fill_d(Context& c) {
    c.out(c.dtype("value"), [&] { return c.integers("dims"); });
}

template <class T>
double first(const Constant& value) {
    T element;
    std::memcpy(&element, value.data.data(), sizeof(T));
    return static_cast<double>(element);
}

/// The one number that an input holds; nullopt where it is not known.
std::optional<double> number(const Context& c, const char* input) {
    const Constant* value = c.in(input).value;
    if (!value) return std::nullopt;
    if (value->data.size() < element_size(value->type.dtype) || value->type.elements() != 1)
        c.fail(std::string("its input ") + input + " should be one number");
    switch (value->type.dtype) {
        case ACL_FLOAT:
            return first<float>(*value);
        case ACL_DOUBLE:
            return first<double>(*value);
        case ACL_INT32:
            return first<int32_t>(*value);
        case ACL_INT64:
            return static_cast<double>(first<int64_t>(*value));
        default:
            c.fail(std::string("its input ") + input + " is " + dtype_name(value->type.dtype) +
                   ", and a range of those is not supported");
    }
}

int64_t steps(const Context& c, double start, double limit, double delta, bool closed) {
    if (delta == 0 || !std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta))
        c.fail("the range does not end");
    double steps = (limit - start) / delta, count = closed ? std::floor(steps) + 1 : std::ceil(steps);
    constexpr double kMost = 1e15;
    if (count > kMost) c.fail("the range has too many elements");
    return count > 0 ? static_cast<int64_t>(count) : 0;
}

/// int32 bounds next to an int64 one are widened: torchair's arange gives its start and step so.
DataType range_dtype(Context& c) {
    const DataType types[] = {c.dtype("start"), c.dtype("limit"), c.dtype("delta")};
    const bool integers =
        std::ranges::all_of(types, [](DataType t) { return t == ACL_INT32 || t == ACL_INT64; });
    if (integers && std::ranges::count(types, ACL_INT64) != 0) return ACL_INT64;
    return common_dtype(c);
}

void range(Context& c) {
    c.out(range_dtype(c), [&] {
        auto start = number(c, "start"), limit = number(c, "limit"), delta = number(c, "delta");
        if (!start || !limit || !delta) return Dims{kUnknown};
        return Dims{steps(c, *start, *limit, *delta, c.flag("is_closed"))};
    });
}

void range_d(Context& c) {
    c.out(c.dtype("x"),
          [&] { return Dims{steps(c, c.real("start"), c.real("limit"), c.real("delta"), false)}; });
}

void lin_space(Context& c) {
    c.out(c.dtype("start"), [&] { return Dims{c.value("num") ? c.need_scalar("num") : kUnknown}; });
}

void eye(Context& c) {
    int64_t rows = c.integer("num_rows"), columns = c.integer("num_columns");
    if (rows < 0 || columns < 0) c.fail("its attributes num_rows and num_columns are sizes");
    c.out(c.type("dtype"), [&] {
        Dims out = c.integers("batch_shape");
        out.push_back(rows);
        out.push_back(columns > 0 ? columns : rows);
        return out;
    });
}

void shape(Context& c) {
    c.out(c.type("dtype"), [&] { return Dims{c.rank("x")}; });
}

void size(Context& c) {
    c.out(c.type("dtype"), [] { return Dims{}; });
}

void rank(Context& c) {
    c.out(ACL_INT32, [] { return Dims{}; });
}

void random_by_dtype(Context& c) {
    c.out(c.type("dtype"), [&] { return shape_of(c, "shape"); });
}

void random_with_offset(Context& c) {
    random_by_dtype(c);
    c.out(c.in("offset").type);
}

void random_int(Context& c) {
    c.out(c.dtype(c.op.name == "RandomUniformInt" ? "min" : "minval"), [&] { return shape_of(c, "shape"); });
}

void bernoulli(Context& c) {
    DataType to = c.type("dtype");
    c.out(to == ACL_DT_UNDEFINED ? c.dtype("x") : to, [&] { return c.dims("x"); });
}

/// One bit an element, in blocks of 128 bits.
void dropout_mask(Context& c) {
    c.out(ACL_UINT8, [&] {
        constexpr int64_t kBlock = 128, kBits = 8;
        int64_t bits = product(c, shape_of(c, "shape"));
        return Dims{bits < 0 ? kUnknown : plus(c, bits, kBlock - 1) / kBlock * (kBlock / kBits)};
    });
}

void dropout_do_mask(Context& c) { c.out(c.in("x").type); }

void randperm(Context& c) {
    c.out(c.type("dtype"), [&] { return Dims{c.integer("n")}; });
}

void stateless_randperm(Context& c) {
    c.out(c.type("dtype"), [&] { return Dims{c.value("n") ? c.need_scalar("n") : kUnknown}; });
}

/// A row of samples for each distribution.
Dims sampled(const Context& c, Key logits, int64_t count) {
    Dims out = c.dims(logits);
    if (out.empty()) c.fail("a distribution is a vector");
    out.back() = count;
    return out;
}

void multinomial(Context& c) {
    c.out(c.type("dtype"), [&] {
        return sampled(c, "logits", c.value("num_samples") ? c.need_scalar("num_samples") : kUnknown);
    });
}

void multinomial_with_replacement(Context& c) {
    c.out(ACL_INT64, [&] { return sampled(c, "x", c.integer("numsamples")); });
}

void shape_n(Context& c) {
    for (const Operand& operand : c.all("x"))
        c.out(c.type("dtype"), [&] {
            return operand.type.ranked ? Dims{static_cast<int64_t>(operand.type.dims.size())}
                                       : Dims{kUnknown};
        });
}

void const_place_holder(Context& c) {
    c.out(c.type("dtype"), [&] { return c.integers("origin_shape"); });
}

void diag_part(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims out = c.dims("x");
        if (out.empty() || out.size() % 2 != 0) c.fail("x should have an even number of dimensions");
        out.resize(out.size() / 2);
        return out;
    });
}

/// Twice the rank: the diagonal of a tensor (Diag), or of its last dimension (MatrixDiag).
void diag(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims out = c.dims("x");
        const Dims x = out;
        out.insert(out.end(), x.begin(), x.end());
        return out;
    });
}

void matrix_diag(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims out = c.dims("x");
        if (out.empty()) c.fail("x is a scalar");
        out.push_back(out.back());
        return out;
    });
}

void matrix_diag_part(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims out = c.dims("x");
        if (out.size() < 2) c.fail("x should be a matrix, or a batch of them");
        int64_t columns = out.back();
        out.pop_back();
        if (columns < 0 || out.back() < 0)
            out.back() = kUnknown;
        else
            out.back() = std::min(columns, out.back());
        return out;
    });
}

constexpr Rule kRules[] = {
    {"Const", constant},
    {"ConstPlaceHolder", const_place_holder},
    {"Constant", constant},
    {"Diag", diag},
    {"DiagPart", diag_part},
    {"DropOutDoMask", dropout_do_mask},
    {"DropOutDoMaskV3", dropout_do_mask},
    {"DropOutGenMask", dropout_mask, {"shape"}},
    {"DropOutGenMaskV3", dropout_mask, {"shape"}},
    {"Empty", random_by_dtype, {"shape"}},
    {"Eye", eye},
    {"Fill", fill, {"dims"}},
    {"FillD", fill_d},
    {"LinSpace", lin_space, {"num"}},
    {"MatrixDiag", matrix_diag},
    {"MatrixDiagPart", matrix_diag_part},
    {"Multinomial", multinomial, {"num_samples"}},
    {"MultinomialWithReplacement", multinomial_with_replacement},
    {"RandomStandardNormal", random_by_dtype, {"shape"}},
    {"RandomStandardNormalV2", random_with_offset, {"shape"}},
    {"RandomUniform", random_by_dtype, {"shape"}},
    {"RandomUniformInt", random_int, {"shape"}},
    {"RandomUniformV2", random_with_offset, {"shape"}},
    {"Randperm", randperm},
    {"Range", range, {"start", "limit", "delta"}},
    {"RangeD", range_d},
    {"Rank", rank},
    {"Shape", shape},
    {"ShapeN", shape_n},
    {"Size", size},
    {"StatelessBernoulli", random_by_dtype, {"shape"}},
    {"StatelessBernoulliV2", bernoulli},
    {"StatelessDropOutGenMask", dropout_mask, {"shape"}},
    {"StatelessNormal", random_by_dtype, {"shape"}},
    {"StatelessRandom", random_by_dtype, {"shape"}},
    {"StatelessRandomNormalV2", random_by_dtype, {"shape"}},
    {"StatelessRandomUniformFullInt", random_by_dtype, {"shape"}},
    {"StatelessRandomUniformFullIntV2", random_by_dtype, {"shape"}},
    {"StatelessRandomUniformInt", random_int, {"shape"}},
    {"StatelessRandomUniformIntV2", random_int, {"shape"}},
    {"StatelessRandomUniformV2", random_by_dtype, {"shape"}},
    {"StatelessRandperm", stateless_randperm, {"n"}},
    {"StatelessTruncatedNormalV2", random_by_dtype, {"shape"}},
    {"StatelessUniform", random_by_dtype, {"shape"}},
    {"TruncatedNormal", random_by_dtype, {"shape"}},
};

}  // namespace

std::span<const Rule> creation_rules() { return kRules; }

}  // namespace npu::graph
