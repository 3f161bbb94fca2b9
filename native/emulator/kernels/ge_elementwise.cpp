// GE's element-by-element operators whose constants are attributes, or that aclnn does not have.
#include "kernels/delegate.h"
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Number = std::optional<double>;

// The attribute of an operator on integers stays an integer: float has no place for all of them.
Scalar constant(const Tensor& x, double value) {
    const bool whole = at::isIntegralType(x.scalar_type(), true) && value == std::trunc(value);
    return whole ? Scalar(static_cast<int64_t>(value)) : Scalar(value);
}

void threshold(const Tensor& x, const Tensor& limit, const std::optional<Tensor>& value, const Tensor& y) {
    const auto instead = value ? value->to(x.scalar_type()) : at::zeros({}, x.options());
    write(y, at::where(x > limit, x, instead));
}

// TensorFlow's first Select: a condition of one dimension chooses rows.
void select(const Tensor& condition, const Tensor& x1, const Tensor& x2, const Tensor& y) {
    auto chosen = condition.ne(0);
    if (condition.dim() == 1 && x1.dim() > 1) {
        std::vector<int64_t> shape(x1.dim(), 1);
        shape[0] = condition.size(0);
        chosen = chosen.view(shape);
    }
    TORCH_CHECK(x1.sizes() == x2.sizes(), "x1 has shape ", x1.sizes(), ", x2 ", x2.sizes(),
                ": they must be the same (SelectV2 broadcasts)");
    write(y, at::where(chosen, x1, x2));
}

void hard_sigmoid(const Tensor& x, Number alpha, Number beta, const Tensor& y) {
    write(y, at::clamp(widen(x) * alpha.value_or(1.0 / 6) + beta.value_or(0.5), 0, 1));
}

void bitcast(const Tensor& x, std::optional<ScalarType> type, std::optional<bool>, const Tensor& y) {
    TORCH_CHECK(!type || *type == y.scalar_type(), "type is ", *type, ", the output is ", y.scalar_type());
    TORCH_CHECK(x.nbytes() == y.nbytes(), "the input has ", x.nbytes(), " bytes, the output ", y.nbytes());
    if (x.element_size() == y.element_size()) {
        const auto same = x.view(y.scalar_type());
        if (!same.is_alias_of(y) || x.const_data_ptr() != y.const_data_ptr()) write(y, same);
        return;
    }
    const auto source = x.contiguous();
    if (source.const_data_ptr() == y.const_data_ptr() || y.nbytes() == 0) return;
    std::memcpy(y.mutable_data_ptr(), source.const_data_ptr(), y.nbytes());
}

const Table table{
    Entry(Ge{"Muls", {"value"}},
          [](const Tensor& x, double value, const Tensor& y) { write(y, widen(x) * constant(x, value)); })
        .elementwise(),
    Entry(Ge{"Adds", {"value"}},
          [](const Tensor& x, double value, const Tensor& y) { write(y, widen(x) + constant(x, value)); })
        .elementwise(),
    Entry(Ge{"Fills", {"value"}}, [](const Tensor&, double value, const Tensor& y) { y.fill_(value); })
        .elementwise(),
    Entry(Ge{"Axpy", {"alpha"}},
          [](const Tensor& x1, const Tensor& x2, double alpha, const Tensor& y) {
              if (x1.scalar_type() == at::kFloat && x2.scalar_type() == at::kFloat)
                  return call_aclnn("aclnnAdd", x1, x2, alpha, y);
              write(y, widen(x1) + widen(x2) * constant(x2, alpha));
          })
        .elementwise(),
    Entry(Ge{"FusedMulAdd"}, [](const Tensor& x1, const Tensor& x2, const Tensor& x3,
                                const Tensor& y) { write(y, widen(x1) * widen(x2) + widen(x3)); })
        .elementwise(),
    Entry(Ge{"Select"}, select),
    Entry(Ge{"ThresholdV2"}, threshold).elementwise(),
    Entry(Ge{"ThresholdV2D", {"threshold", "value"}},
          [](const Tensor& x, double limit, double value, const Tensor& y) {
              call_aclnn("aclnnThreshold", x, limit, value, y);
          })
        .elementwise(),

    Entry(Ge{"Elu", {"alpha", "scale", "input_scale"}},
          [](const Tensor& x, Number alpha, Number scale, Number input_scale, const Tensor& y) {
              call_aclnn("aclnnElu", x, alpha.value_or(1), scale.value_or(1), input_scale.value_or(1), y);
          })
        .elementwise(),
    Entry(Ge{"CeluV2", {"alpha"}}, [](const Tensor& x, Number alpha,
                                      const Tensor& y) { call_aclnn("aclnnCelu", x, alpha.value_or(1), y); })
        .elementwise(),
    Entry(Ge{"LeakyRelu", {"negative_slope"}},
          [](const Tensor& x, Number slope, const Tensor& y) {
              call_aclnn("aclnnLeakyRelu", x, slope.value_or(0), y);
          })
        .elementwise(),
    Entry(Ge{"SoftplusV2", {"beta", "threshold"}},
          [](const Tensor& x, Number beta, Number limit, const Tensor& y) {
              call_aclnn("aclnnSoftplus", x, beta.value_or(1), limit.value_or(20), y);
          })
        .elementwise(),
    Entry(Ge{"HardShrink", {"lambd"}},
          [](const Tensor& x, Number lambd, const Tensor& y) {
              call_aclnn("aclnnHardshrink", x, lambd.value_or(0.5), y);
          })
        .elementwise(),
    Entry(Ge{"SoftShrink", {"lambd"}},
          [](const Tensor& x, Number lambd, const Tensor& y) {
              call_aclnn("aclnnSoftshrink", x, lambd.value_or(0.5), y);
          })
        .elementwise(),
    Entry(Ge{"HardSigmoid", {"alpha", "beta"}}, hard_sigmoid).elementwise(),

    Entry(Ge{"Bitcast", {"type", "keep_dim"}}, bitcast),
    Entry(Ge{"Real", {"Tout"}},
          [](const Tensor& x, std::optional<ScalarType>, const Tensor& y) { write(y, at::real(x)); }),
    Entry(Ge{"Imag", {"Tout"}},
          [](const Tensor& x, std::optional<ScalarType>, const Tensor& y) { write(y, at::imag(x)); }),
    Entry(Ge{"ComplexAbs", {"Tout"}},
          [](const Tensor& x, std::optional<ScalarType>, const Tensor& y) { write(y, at::abs(x)); }),
    Entry(Ge{"Complex", {"Tout"}}, [](const Tensor& real, const Tensor& imag, std::optional<ScalarType>,
                                      const Tensor& y) { write(y, at::complex(real, imag)); }),
};

}  // namespace
}  // namespace npu::emulator
