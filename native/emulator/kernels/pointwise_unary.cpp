// Operators of one tensor, element by element.
#include "kernels/kernel.h"

namespace npu::emulator {
namespace {

// A row whose output takes the dtype that torch_npu decided on: ATen's out variant converts within the
// allowed casts.
template <auto Function>
Entry unary(const char* aclnn, const char* ge) {
    return Entry(aclnn, Ge{ge}, [](const Tensor& self, const Tensor& out) { Function(mut(out), self); })
        .elementwise();
}

const Table table{
    unary<at::abs_out>("aclnnAbs", "Abs"),
    unary<at::neg_out>("aclnnNeg", "Neg"),
};

}  // namespace
}  // namespace npu::emulator
