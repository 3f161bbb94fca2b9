// Copies between dtypes and layouts, and fills.
#include <bit>
#include <cmath>

#include "kernels/scalar.h"

namespace npu::emulator {
namespace {

// ATen rounds double to half by way of float, so twice. With this float's last bit standing for all that is
// dropped, the second rounding is the only one.
Tensor to_odd_float(const Tensor& self) {
    const Tensor from = self.contiguous();
    const Tensor to = at::empty(self.sizes(), self.options().dtype(at::kFloat));
    const auto* source = from.const_data_ptr<double>();
    auto* target = to.mutable_data_ptr<float>();
    for (int64_t i = 0; i < from.numel(); ++i) {
        const auto nearest = static_cast<float>(source[i]);
        auto bits = std::bit_cast<uint32_t>(nearest);
        const bool exact = static_cast<double>(nearest) == source[i] || std::isnan(nearest);
        if (!exact)
            bits = (std::abs(static_cast<double>(nearest)) > std::abs(source[i]) ? bits - 1 : bits) | 1;
        target[i] = std::bit_cast<float>(bits);
    }
    return to;
}

void cast(const Tensor& self, ScalarType dtype, const Tensor& out) {
    TORCH_CHECK(out.scalar_type() == dtype, "the dtype asked for is ", dtype, ", the output has ",
                out.scalar_type());
    if (self.scalar_type() == at::kDouble && dtype == at::kHalf) return write(out, to_odd_float(self));
    write(out, self);
}

void fill_with(const Tensor& self, const Tensor& value) {
    TORCH_CHECK(value.numel() == 1, "value must have one element, it has shape ", value.sizes());
    self.copy_(value.reshape({}));
}

// CANN lets masks be bytes: anything but 0 selects.
Tensor as_mask(const Tensor& mask) { return mask.scalar_type() == at::kBool ? mask : mask.ne(0); }

const Table table{
    Entry("aclnnInplaceCopy", [](const Tensor& self, const Tensor& source) { self.copy_(source); }),
    Entry("aclnnCast", Ge{"Cast", {"dst_type"}}, cast).elementwise(),
    Entry("aclnnCastV3",
          [](const Tensor& x, int64_t dst_type, const Tensor& y) {
              cast(x, detail::Cast<ScalarType>::from(Arg(dst_type), 1), y);
          }),

    Entry("aclnnInplaceZero", [](const Tensor& self) { self.zero_(); }),
    Entry("aclnnInplaceOne", [](const Tensor& self) { self.fill_(1); }),
    Entry("aclnnInplaceFillScalar", [](const Tensor& self, const Scalar& value) { self.fill_(value); }),
    Entry("aclnnInplaceFillTensor", fill_with),
    Entry("aclnnInplaceFillDiagonal",
          [](const Tensor& self, const Scalar& value, bool wrap) { mut(self).fill_diagonal_(value, wrap); }),
    Entry(Ge{"ZerosLike"}, [](const Tensor&, const Tensor& out) { out.zero_(); }).elementwise(),
    Entry(Ge{"OnesLike"}, [](const Tensor&, const Tensor& out) { out.fill_(1); }).elementwise(),

    Entry("aclnnInplaceMaskedFillScalar",
          [](const Tensor& self, const Tensor& mask, const Scalar& value) {
              mut(self).masked_fill_(as_mask(mask), value);
          }),
    Entry("aclnnInplaceMaskedFillTensor",
          [](const Tensor& self, const Tensor& mask, const Tensor& value) {
              mut(self).masked_fill_(as_mask(mask), only_element(value, "value"));
          }),
    Entry(Ge{"MaskedFill"},
          [](const Tensor& x, const Tensor& mask, const Tensor& value, const Tensor& out) {
              write(out, at::masked_fill(x, as_mask(mask), only_element(value, "value")));
          })
        .elementwise(),
};

}  // namespace
}  // namespace npu::emulator
