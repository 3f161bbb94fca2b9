// GE's matrix products and the solutions of linear systems.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <type_traits>

#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;
using Flag = std::optional<bool>;

// x1 and x2 may be transposed in their last two dimensions; the bias is added before the only rounding.
void product(const Tensor& x1, const Tensor& x2, Optional bias, Flag transpose1, Flag transpose2,
             const Tensor& y) {
    const auto left = transpose1.value_or(false) ? x1.mT() : x1;
    const auto right = transpose2.value_or(false) ? x2.mT() : x2;
    if (!bias) return call_aclnn("aclnnMatmul", left, right, y, 0);
    write(y, at::matmul(widen(left), widen(right)) + widen(*bias));
}

void product_v2(const Tensor& x1, const Tensor& x2, Optional bias, Optional offset, Flag transpose1,
                Flag transpose2, const Tensor& y) {
    TORCH_CHECK(!offset, "offset_w (a quantised product) is not supported: leave it out");
    product(x1, x2, bias, transpose1, transpose2, y);
}

void fused(const Tensor& x1, const Tensor& x2, Optional bias, Optional x3, Flag transpose1, Flag transpose2,
           const std::string& op, const Tensor& y) {
    call_aclnn("aclnnFusedMatmul", transpose1.value_or(false) ? x1.mT() : x1,
               transpose2.value_or(false) ? x2.mT() : x2, bias, x3, op, 0, y);
}

void triangular_solve(const Tensor& matrix, const Tensor& rhs, Flag lower, Flag adjoint, const Tensor& y) {
    const bool flip = adjoint.value_or(false), upper = !lower.value_or(true);
    const auto a = widen(flip ? matrix.mH() : matrix);
    write(y, at::linalg_solve_triangular(a, widen(rhs), flip ? !upper : upper));
}

// The sum of rows of x2 that the entries of a sparse x1 (row, column) name, in their order. Integers wrap.
template <class T>
void add_rows(const int64_t* indices, const T* values, int64_t count, const Tensor& x2, const Tensor& y,
              bool flip) {
    using Carried =
        std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
    const auto rows = y.size(0), inner = x2.size(0), columns = y.size(1);
    const auto* in = x2.const_data_ptr<T>();
    auto* out = y.mutable_data_ptr<T>();
    at::parallel_for(0, columns, 256, [&](int64_t begin, int64_t end) {
        for (int64_t entry = 0; entry < count; ++entry) {
            const auto row = indices[2 * entry + flip], column = indices[2 * entry + !flip];
            TORCH_CHECK(0 <= row && row < rows && 0 <= column && column < inner, "x1_indices has (", row,
                        ", ", column, "), x1 is ", rows, " by ", inner);
            const auto value = static_cast<Carried>(values[entry]);
            for (int64_t j = begin; j < end; ++j) {
                const auto product = value * static_cast<Carried>(in[column * columns + j]);
                auto& sum = out[row * columns + j];
                sum = static_cast<T>(static_cast<Carried>(sum) + product);
            }
        }
    });
}

void sparse_product(const Tensor& indices, const Tensor& values, IntArrayRef shape, const Tensor& x2,
                    Flag adjoint1, Flag adjoint2, const Tensor& y) {
    const bool flip = adjoint1.value_or(false);
    const auto places = indices.to(at::kLong).contiguous();
    const auto entries =
        widen(flip && values.is_complex() ? values.conj() : values).resolve_conj().contiguous();
    const auto right = widen(adjoint2.value_or(false) ? x2.mH() : x2).resolve_conj().contiguous();
    TORCH_CHECK(shape.size() == 2 && right.dim() == 2 && shape[flip ? 0 : 1] == right.size(0), "x1 of shape ",
                shape, flip ? " adjoint" : "", " does not go with x2 of ", right.sizes());
    TORCH_CHECK(places.dim() == 2 && places.size(1) == 2 && places.size(0) == entries.numel(),
                "x1_indices must be [entries, 2] for ", entries.numel(), " values, got ", places.sizes());
    const auto sum = at::zeros({shape[flip ? 1 : 0], right.size(1)}, right.options());
    AT_DISPATCH_ALL_TYPES_AND_COMPLEX(sum.scalar_type(), "SparseTensorDenseMatMul", [&] {
        add_rows<scalar_t>(places.const_data_ptr<int64_t>(), entries.const_data_ptr<scalar_t>(),
                           entries.numel(), right, sum, flip);
    });
    write(y, sum);
}

// Higher precision than the hardware's modes is always allowed, so those attributes are not read.
const Table table{
    {Ge{"MatMul", {"transpose_x1", "transpose_x2"}}, product},
    {Ge{"MatMulV2", {"transpose_x1", "transpose_x2", "offset_x?=0"}}, product_v2},
    {Ge{"MatMulV3", {"transpose_x1", "transpose_x2", "offset_x?=0", "opImplMode"}},
     [](const Tensor& x1, const Tensor& x2, Optional bias, Optional offset, Flag transpose1, Flag transpose2,
        std::optional<int64_t>,
        const Tensor& y) { product_v2(x1, x2, bias, offset, transpose1, transpose2, y); }},
    {Ge{"BatchMatMul", {"adj_x1", "adj_x2"}},
     [](const Tensor& x1, const Tensor& x2, Flag transpose1, Flag transpose2, const Tensor& y) {
         product(x1, x2, std::nullopt, transpose1, transpose2, y);
     }},
    {Ge{"BatchMatMulV2", {"adj_x1", "adj_x2", "offset_x?=0"}}, product_v2},
    {Ge{"BatchMatMulV3", {"adj_x1", "adj_x2", "offset_x?=0", "enable_hf32"}},
     [](const Tensor& x1, const Tensor& x2, Optional bias, Optional offset, Flag transpose1, Flag transpose2,
        Flag, const Tensor& y) { product_v2(x1, x2, bias, offset, transpose1, transpose2, y); }},
    {Ge{"FusedMatMul", {"transpose_x1", "transpose_x2", "enable_hf32", "fused_op_type", "inner_precise"}},
     [](const Tensor& x1, const Tensor& x2, Optional bias, Optional x3, Flag transpose1, Flag transpose2,
        Flag, const std::string& op, std::optional<int64_t>,
        const Tensor& y) { fused(x1, x2, bias, x3, transpose1, transpose2, op, y); }},
    {Ge{"TransposeBatchMatMul", {"perm_x1", "perm_x2", "perm_y", "enable_hf32", "batch_split_factor"}},
     [](const Tensor& x1, const Tensor& x2, Optional bias, Optional scale, IntArrayRef perm1,
        IntArrayRef perm2, IntArrayRef perm_y, Flag, std::optional<int64_t> split, const Tensor& y) {
         call_aclnn("aclnnTransposeBatchMatMul", x1, x2, bias, scale, perm1, perm2, perm_y, 0,
                    split.value_or(1), y);
     }},
    {Ge{"Einsum", {"equation", "N"}},
     [](const std::vector<Tensor>& x, const std::string& equation, std::optional<int64_t>, const Tensor& y) {
         std::vector<Tensor> wide;
         for (const auto& operand : x) wide.push_back(widen(operand));
         write(y, at::einsum(equation, wide));
     }},
    {Ge{"SparseTensorDenseMatMul", {"adjoint_a", "adjoint_b"}}, sparse_product},
    {Ge{"MatrixInverse", {"adjoint"}},
     [](const Tensor& x, Flag adjoint, const Tensor& y) {
         call_aclnn("aclnnInverse", adjoint.value_or(false) ? x.mH() : x, y);
     }},
    {Ge{"Cholesky"},
     [](const Tensor& x, const Tensor& y) { call_aclnn("aclnnLinalgCholesky", x, false, y); }},
    {Ge{"MatrixTriangularSolve", {"lower", "adjoint"}}, triangular_solve},
};

}  // namespace
}  // namespace npu::emulator
