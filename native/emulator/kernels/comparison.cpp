// Comparisons and logic: the result is true or false, whatever dtype it is stored in.
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Tensors = Tensor& (*)(Tensor&, const Tensor&, const Tensor&);
using WithScalar = Tensor& (*)(Tensor&, const Tensor&, const Scalar&);

template <Tensors Function>
Entry tensors(const char* aclnn, const char* ge = nullptr) {
    return Entry(aclnn, Ge{ge},
                 [](const Tensor& self, const Tensor& other, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, other); });
                 })
        .elementwise();
}
template <WithScalar Function>
Entry with_scalar(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& self, const Scalar& other, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, other); });
                 })
        .elementwise();
}

// Same shape, same dtype and every element equal (NaN is not).
void equal(const Tensor& self, const Tensor& other, const Tensor& out) {
    TORCH_CHECK(out.numel() == 1, "the output has shape ", out.sizes(), ", it must have one element");
    out.fill_(self.sizes() == other.sizes() && at::eq(self, other).all().item<bool>());
}

void is_close(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan,
              const Tensor& out) {
    write(out, at::isclose(self, other, rtol, atol, equal_nan));
}

const Table table{
    tensors<at::eq_out>("aclnnEqTensor", "Equal"),
    tensors<at::ne_out>("aclnnNeTensor", "NotEqual"),
    tensors<at::lt_out>("aclnnLtTensor", "Less"),
    tensors<at::le_out>("aclnnLeTensor", "LessEqual"),
    tensors<at::gt_out>("aclnnGtTensor", "Greater"),
    tensors<at::ge_out>("aclnnGeTensor", "GreaterEqual"),
    with_scalar<at::eq_out>("aclnnEqScalar"),
    with_scalar<at::ne_out>("aclnnNeScalar"),
    with_scalar<at::lt_out>("aclnnLtScalar"),
    with_scalar<at::le_out>("aclnnLeScalar"),
    with_scalar<at::gt_out>("aclnnGtScalar"),
    with_scalar<at::ge_out>("aclnnGeScalar"),

    tensors<at::logical_and_out>("aclnnLogicalAnd", "LogicalAnd"),
    tensors<at::logical_or_out>("aclnnLogicalOr", "LogicalOr"),
    tensors<at::logical_xor_out>("aclnnLogicalXor"),

    Entry("aclnnIsInScalarTensor",
          [](const Scalar& element, const Tensor& among, bool assume_unique, bool invert, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::isin_out(result, element, among, assume_unique, invert); });
          }),
    Entry(
        "aclnnIsInTensorScalar",
        [](const Tensor& elements, const Scalar& among, bool assume_unique, bool invert, const Tensor& out) {
            fill(out, [&](Tensor& result) { at::isin_out(result, elements, among, assume_unique, invert); });
        }),
    Entry("aclnnEqual", equal),
    Entry("aclnnIsClose", Ge{"IsClose", {"rtol", "atol", "equal_nan"}}, is_close).elementwise(),
    Entry("aclnnApproximateEqual", Ge{"ApproximateEqual", {"tolerance"}},
          [](const Tensor& x1, const Tensor& x2, double tolerance, const Tensor& out) {
              write(out, at::lt(at::abs(widen(x1) - widen(x2)), tolerance));
          })
        .elementwise(),
};

}  // namespace
}  // namespace npu::emulator
