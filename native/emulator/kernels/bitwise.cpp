// Bits of integers (logic on bool) and shifts.
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Out = Tensor& (*)(Tensor&, const Tensor&, const Tensor&);

template <Out Function>
Entry tensors(const char* aclnn, const char* ge = nullptr) {
    return Entry(aclnn, Ge{ge},
                 [](const Tensor& self, const Tensor& other, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, other); });
                 })
        .elementwise();
}
template <Out Function>
Entry with_scalar(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& self, const Scalar& other, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, number(other)); });
                 })
        .elementwise();
}

const Table table{
    tensors<at::bitwise_and_out>("aclnnBitwiseAndTensor", "BitwiseAnd"),
    tensors<at::bitwise_and_out>("aclnnBitwiseAndTensorOut"),
    tensors<at::bitwise_or_out>("aclnnBitwiseOrTensor", "BitwiseOr"),
    tensors<at::bitwise_xor_out>("aclnnBitwiseXorTensor", "BitwiseXor"),
    with_scalar<at::bitwise_and_out>("aclnnBitwiseAndScalar"),
    with_scalar<at::bitwise_or_out>("aclnnBitwiseOrScalar"),
    with_scalar<at::bitwise_xor_out>("aclnnBitwiseXorScalar"),
    tensors<at::bitwise_left_shift_out>("aclnnLeftShift", "LeftShift"),
    tensors<at::bitwise_right_shift_out>("aclnnRightShift", "RightShift"),
    with_scalar<at::bitwise_left_shift_out>("aclnnLeftShifts"),
};

}  // namespace
}  // namespace npu::emulator
