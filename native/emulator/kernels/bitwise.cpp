// Bits of integers (logic on bool) and shifts.
#include <bit>

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

// How many bits of each integer are set; ATen has nothing for that.
void population_count(const Tensor& x, const Tensor& y) {
    const Tensor from = x.contiguous(), to = dense(y, at::kByte);
    auto* target = to.mutable_data_ptr<uint8_t>();
    const auto count = [&]<class T>(T) {
        const auto* source = static_cast<const T*>(from.const_data_ptr());
        for (int64_t i = 0; i < from.numel(); ++i) target[i] = static_cast<uint8_t>(std::popcount(source[i]));
    };
    switch (x.element_size()) {
        case 1:
            count(uint8_t{});
            break;
        case 2:
            count(uint16_t{});
            break;
        case 4:
            count(uint32_t{});
            break;
        default:
            count(uint64_t{});
    }
    store(y, to);
}

const Table table{
    Entry(Ge{"PopulationCount"}, population_count).elementwise(),
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
