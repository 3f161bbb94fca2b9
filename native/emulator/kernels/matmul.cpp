// Matrix products. cubeMathType allows the hardware less precision than the operands have: it is never taken.
#include "kernels/rows.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

// The operands in one type, and whether `out` can take the product without a conversion.
struct Operands {
    Tensor left, right;
    bool direct;

    Operands(const Tensor& a, const Tensor& b, const Tensor& out) {
        auto type = at::promote_types(a.scalar_type(), b.scalar_type());
        // A wider output asks for the sum before it is rounded.
        if (is_narrow(type) && out.scalar_type() == at::kFloat) type = at::kFloat;
        left = a.to(type);
        right = b.to(type);
        direct = out.scalar_type() == type;
    }
};

// What threads and packing would only hold up: a few rows times matrices that the caches hold.
constexpr int64_t kFewRows = 4, kSmallMatrix = 1 << 17, kSmallProduct = 1 << 19;

/// Whether `out` = self @ mat2 was computed row by row: float32, mat2 a matrix or as many as self has.
bool few_rows(const Tensor& self, const Tensor& mat2, const Tensor& out) {
    for (const Tensor* each : {&self, &mat2, &out})
        if (each->scalar_type() != at::kFloat || each->dim() < 2) return false;
    if (mat2.size(-1) == 1 && self.size(-2) > 1) return few_rows(mat2.mT(), self.mT(), out.mT());
    if (!self.is_contiguous() || !out.is_contiguous()) return false;
    const int64_t rows = self.size(-2), k = self.size(-1), n = mat2.size(-1);
    if (rows > kFewRows || k * n > kSmallMatrix || mat2.size(-2) != k || out.size(-1) != n ||
        out.dim() != self.dim() ||
        out.sizes().slice(0, out.dim() - 1) != self.sizes().slice(0, self.dim() - 1))
        return false;
    const int64_t batches = self.numel() == 0 ? 0 : self.numel() / (rows * k);
    if (mat2.dim() != self.dim()
            ? mat2.dim() != 2
            : mat2.sizes().slice(0, mat2.dim() - 2) != self.sizes().slice(0, self.dim() - 2))
        return false;
    if (batches == 0 || batches * rows * k * n > kSmallProduct) return false;
    const bool by_rows = mat2.stride(-1) == 1 || n == 1;
    if (!by_rows && mat2.stride(-2) != 1) return false;
    const auto product = by_rows ? rows::times_matrix : rows::times_transposed;
    const int64_t stride = by_rows ? mat2.stride(-2) : mat2.stride(-1);
    const auto* left = self.const_data_ptr<float>();
    auto* to = out.mutable_data_ptr<float>();
    for (int64_t batch = 0; batch < batches; ++batch) {
        int64_t offset = 0;
        for (int64_t dim = mat2.dim() - 3, rest = batch; dim >= 0; rest /= mat2.size(dim), --dim)
            offset += rest % mat2.size(dim) * mat2.stride(dim);
        for (int64_t row = 0; row < rows; ++row, left += k, to += n)
            product(to, left, mat2.const_data_ptr<float>() + offset, k, n, stride);
    }
    return true;
}

void mm(const Tensor& self, const Tensor& mat2, const Tensor& out) {
    if (few_rows(self, mat2, out)) return;
    const Operands by(self, mat2, out);
    if (!by.direct) return write(out, at::mm(by.left, by.right));
    fill(out, [&](Tensor& to) { at::mm_out(to, by.left, by.right); });
}

void bmm(const Tensor& self, const Tensor& mat2, const Tensor& out) {
    if (few_rows(self, mat2, out)) return;
    const Operands by(self, mat2, out);
    if (!by.direct) return write(out, at::bmm(by.left, by.right));
    fill(out, [&](Tensor& to) { at::bmm_out(to, by.left, by.right); });
}

void mv(const Tensor& self, const Tensor& vec, const Tensor& out) {
    const Operands by(self, vec, out);
    if (!by.direct) return write(out, at::mv(by.left, by.right));
    fill(out, [&](Tensor& to) { at::mv_out(to, by.left, by.right); });
}

// A batch times one matrix is one product over the folded rows, written straight to the output.
void matmul(const Tensor& self, const Tensor& mat2, const Tensor& out) {
    if (self.dim() == 2 && mat2.dim() == 2) return mm(self, mat2, out);
    if (self.dim() == 2 && mat2.dim() == 1) return mv(self, mat2, out);
    if (few_rows(self, mat2, out)) return;
    if (self.dim() == 3 && mat2.dim() == 3 && self.size(0) == mat2.size(0)) return bmm(self, mat2, out);
    if (self.dim() > 2 && mat2.dim() == 2 && out.is_contiguous() && self.size(-1) > 0 && out.numel() > 0) {
        auto expected = self.sizes().vec();
        expected.back() = mat2.size(1);
        TORCH_CHECK(out.sizes() == at::IntArrayRef(expected), "the output has shape ", out.sizes(),
                    ", the product has ", at::IntArrayRef(expected));
        return mm(self.reshape({-1, self.size(-1)}), mat2, out.view({-1, out.size(-1)}));
    }
    const Operands by(self, mat2, out);
    write(out, at::matmul(by.left, by.right));
}

// beta * self + alpha * product, by ATen's function of that name.
template <auto Out, auto Function>
void accumulate(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                const Tensor& out) {
    const Operands by(a, b, out);
    const auto base = self.to(by.left.scalar_type());
    if (!by.direct) return write(out, Function(base, by.left, by.right, beta, alpha));
    fill(out, [&](Tensor& to) { Out(to, base, by.left, by.right, beta, alpha); });
}

constexpr auto addmm_into = static_cast<Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                    const Scalar&, const Scalar&)>(at::addmm_out);
constexpr auto addmm_of =
    static_cast<Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&)>(
        at::addmm);
constexpr auto baddbmm_into = static_cast<Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                      const Scalar&, const Scalar&)>(at::baddbmm_out);
constexpr auto baddbmm_of =
    static_cast<Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&)>(
        at::baddbmm);

void addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
           const Tensor& out) {
    accumulate<addmm_into, addmm_of>(self, a, b, beta, alpha, out);
}
void baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
             const Tensor& out) {
    accumulate<baddbmm_into, baddbmm_of>(self, a, b, beta, alpha, out);
}

// x3 is applied to the rounded-once sum: everything up to the output is carried in float.
void fused_matmul(const Tensor& x1, const Tensor& x2, const std::optional<Tensor>& bias,
                  const std::optional<Tensor>& x3, const std::string& op, const Tensor& y) {
    auto result = at::matmul(widen(x1), widen(x2));
    if (bias) result = result + widen(*bias);
    if (op == "add" || op == "mul") {
        TORCH_CHECK(x3, "fusedOpType ", op, " needs x3");
        result = op == "add" ? result + widen(*x3) : result * widen(*x3);
    } else if (op == "gelu_tanh" || op == "gelu_erf") {
        result = at::gelu(result, op == "gelu_tanh" ? "tanh" : "none");
    } else if (op == "relu") {
        result = at::relu(result);
    } else {
        TORCH_CHECK(op.empty() || op == "16cast32", "fusedOpType is ", op,
                    "; known are add, mul, gelu_tanh, gelu_erf, relu, 16cast32 and the empty string");
    }
    write(y, result);
}

// (M, B, N) out of a batch of products, or (M, 1, B * N), or (split, M, B * N / split).
void transpose_bmm(const Tensor& x1, const Tensor& x2, const std::optional<Tensor>& bias,
                   const std::optional<Tensor>& scale, IntArrayRef perm1, IntArrayRef perm2,
                   IntArrayRef perm_y, int64_t split, const Tensor& out) {
    TORCH_CHECK(!bias, "a bias is not supported: pass none and add it afterwards");
    TORCH_CHECK(!scale, "scale (an int8 output) is not supported: pass none and quantize afterwards");
    TORCH_CHECK(split >= 1, "batchSplitFactor is ", split, ", it must be at least 1");
    auto product = at::bmm(widen(x1.permute(perm1)), widen(x2.permute(perm2))).permute(perm_y);
    if (split > 1) {
        const auto m = product.size(0), columns = product.size(1) * product.size(2);
        TORCH_CHECK(columns % split == 0, "batchSplitFactor ", split, " does not divide the ", columns,
                    " columns");
        product = product.reshape({m, split, columns / split}).permute({1, 0, 2});
    }
    write(out, product);
}

using Optional = const std::optional<Tensor>&;

const Table table{
    {"aclnnMm", [](const Tensor& a, const Tensor& b, const Tensor& out, int64_t) { mm(a, b, out); }},
    {"aclnnMatmul", [](const Tensor& a, const Tensor& b, const Tensor& out, int64_t) { matmul(a, b, out); }},
    {"aclnnMatmulWeightNz",
     [](const Tensor& a, const Tensor& b, const Tensor& out, int64_t) { matmul(a, b, out); }},
    {"aclnnBatchMatMul",
     [](const Tensor& a, const Tensor& b, const Tensor& out, int64_t) { bmm(a, b, out); }},
    {"aclnnBatchMatMulWeightNz",
     [](const Tensor& a, const Tensor& b, const Tensor& out, int64_t) { bmm(a, b, out); }},
    {"aclnnMv", [](const Tensor& a, const Tensor& b, const Tensor& out, int64_t) { mv(a, b, out); }},
    {"aclnnDot",
     [](const Tensor& a, const Tensor& b, const Tensor& out) {
         const Operands by(a, b, out);
         write(out, at::dot(by.left, by.right));
     }},
    {"aclnnAddmm",
     [](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
        const Tensor& out, int64_t) { addmm(self, a, b, beta, alpha, out); }},
    {"aclnnAddmmWeightNz",
     [](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
        const Tensor& out, int64_t) { addmm(self, a, b, beta, alpha, out); }},
    {"aclnnInplaceAddmm", [](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                             const Scalar& alpha, int64_t) { addmm(self, a, b, beta, alpha, self); }},
    {"aclnnBaddbmm",
     [](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
        const Tensor& out, int64_t) { baddbmm(self, a, b, beta, alpha, out); }},
    {"aclnnInplaceBaddbmm", [](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                               const Scalar& alpha, int64_t) { baddbmm(self, a, b, beta, alpha, self); }},
    {"aclnnAddbmm",
     [](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
        const Tensor& out, int64_t) {
         // Summed over the batch before it is rounded.
         write(out, at::addbmm(widen(self), widen(a), widen(b), beta, alpha));
     }},
    {"aclnnAddmv",
     [](const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& alpha, const Scalar& beta,
        const Tensor& out, int64_t) {
         const auto type = at::promote_types(mat.scalar_type(), vec.scalar_type());
         write(out, at::addmv(self.to(type), mat.to(type), vec.to(type), beta, alpha));
     }},
    {"aclnnAddr",
     [](const Tensor& self, const Tensor& vec1, const Tensor& vec2, std::optional<Scalar> beta,
        std::optional<Scalar> alpha, const Tensor& out) {
         write(out, at::addr(widen(self), widen(vec1), widen(vec2), beta.value_or(1), alpha.value_or(1)));
     }},
    {"aclnnInplaceAddr",
     [](const Tensor& self, const Tensor& vec1, const Tensor& vec2, std::optional<Scalar> beta,
        std::optional<Scalar> alpha) {
         write(self, at::addr(widen(self), widen(vec1), widen(vec2), beta.value_or(1), alpha.value_or(1)));
     }},
    {"aclnnFusedMatmul",
     [](const Tensor& x1, const Tensor& x2, Optional bias, Optional x3, const std::string& op, int64_t,
        const Tensor& y) { fused_matmul(x1, x2, bias, x3, op, y); }},
    {"aclnnTransposeBatchMatMul",
     [](const Tensor& x1, const Tensor& x2, Optional bias, Optional scale, IntArrayRef perm1,
        IntArrayRef perm2, IntArrayRef perm_y, int64_t, int64_t split,
        const Tensor& out) { transpose_bmm(x1, x2, bias, scale, perm1, perm2, perm_y, split, out); }},
    {"aclnnTransposeBatchMatMulWeightNz",
     [](const Tensor& x1, const Tensor& x2, Optional bias, Optional scale, IntArrayRef perm1,
        IntArrayRef perm2, IntArrayRef perm_y, int64_t, int64_t split,
        const Tensor& out) { transpose_bmm(x1, x2, bias, scale, perm1, perm2, perm_y, split, out); }},
};

}  // namespace
}  // namespace npu::emulator
