// Operators of three operands, element by element: selection, interpolation, multiply-add, limits.
#include <ATen/Parallel.h>

#include "kernels/rows.h"
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using MultiplyAdd = Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Tensor&, const Scalar&);

template <MultiplyAdd Function>
Entry multiply_add(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value,
                    const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, a, b, value); });
                 })
        .elementwise();
}
template <MultiplyAdd Function>
Entry multiply_add(Ge ge) {
    return Entry(ge,
                 [](const Tensor& self, const Tensor& a, const Tensor& b, const Tensor& value,
                    const Tensor& out) {
                     fill(out, [&](Tensor& result) {
                         Function(result, self, a, b, only_element(value, "value"));
                     });
                 })
        .elementwise();
}

// Whether `out` was written here: dense float32, each side of the condition's shape or one element. ATen's
// where goes element by element.
bool select_floats(const Tensor& condition, const Tensor& self, const Tensor& other, const Tensor& out) {
    const auto fits = [&](const Tensor& side) {
        return side.scalar_type() == at::kFloat &&
               (side.numel() == 1 || (side.sizes() == out.sizes() && side.is_contiguous()));
    };
    if (!fits(self) || !fits(other) || out.scalar_type() != at::kFloat || !out.is_contiguous() ||
        condition.sizes() != out.sizes() || !condition.is_contiguous())
        return false;
    const auto* chosen = condition.const_data_ptr<bool>();
    const auto *yes = self.const_data_ptr<float>(), *no = other.const_data_ptr<float>();
    const bool one_yes = self.numel() == 1, one_no = other.numel() == 1;
    auto* to = out.mutable_data_ptr<float>();
    at::parallel_for(0, out.numel(), at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) {
        rows::select(to + begin, chosen + begin, one_yes ? yes : yes + begin, one_yes,
                     one_no ? no : no + begin, one_no, end - begin);
    });
    return true;
}

void select(const Tensor& condition, const Tensor& self, const Tensor& other, const Tensor& out) {
    const Tensor chosen = condition.scalar_type() == at::kBool ? condition : condition.ne(0);
    if (select_floats(chosen, self, other, out)) return;
    fill(out, [&](Tensor& result) { at::where_out(result, chosen, self, other); });
}

template <class Limit>
void clamp(const Tensor& self, const std::optional<Limit>& low, const std::optional<Limit>& high,
           const Tensor& out) {
    TORCH_CHECK(low || high, "neither the lower nor the upper limit is given");
    fill(out, [&](Tensor& result) { at::clamp_out(result, self, low, high); });
}

Entry between(const char* type) {
    return Entry(Ge{type},
                 [](const Tensor& x, const Tensor& low, const Tensor& high, const Tensor& out) {
                     fill(out, [&](Tensor& result) { at::clamp_out(result, x, low, high); });
                 })
        .elementwise();
}

template <auto Function, class Limit>
Entry limit(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& self, const Limit& bound, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, bound); });
                 })
        .elementwise();
}

template <class Limit>
using Bound = Tensor& (*)(Tensor&, const Tensor&, const Limit&);

const Table table{
    Entry("aclnnSWhere", Ge{"SelectV2"}, select).elementwise(),
    Entry("aclnnLerp", Ge{"Lerp"},
          [](const Tensor& self, const Tensor& end, const Tensor& weight, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::lerp_out(result, self, end, weight); });
          })
        .elementwise(),
    Entry("aclnnLerps",
          [](const Tensor& self, const Tensor& end, const Scalar& weight, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::lerp_out(result, self, end, weight); });
          })
        .elementwise(),
    multiply_add<at::addcmul_out>("aclnnAddcmul"),
    multiply_add<at::addcdiv_out>("aclnnAddcdiv"),
    multiply_add<at::addcmul_out>(Ge{"Addcmul"}),
    multiply_add<at::addcdiv_out>(Ge{"Addcdiv"}),

    Entry("aclnnClamp",
          [](const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high,
             const Tensor& out) { clamp(self, low, high, out); })
        .elementwise(),
    Entry("aclnnClampTensor",
          [](const Tensor& self, const std::optional<Tensor>& low, const std::optional<Tensor>& high,
             const Tensor& out) { clamp(self, low, high, out); })
        .elementwise(),
    limit<static_cast<Bound<Scalar>>(at::clamp_min_out), Scalar>("aclnnClampMin"),
    limit<static_cast<Bound<Scalar>>(at::clamp_max_out), Scalar>("aclnnClampMax"),
    limit<static_cast<Bound<Tensor>>(at::clamp_min_out), Tensor>("aclnnClampMinTensor"),
    limit<static_cast<Bound<Tensor>>(at::clamp_max_out), Tensor>("aclnnClampMaxTensor"),
    between("ClipByValue"),
    between("ClipByValueV2"),
};

}  // namespace
}  // namespace npu::emulator
