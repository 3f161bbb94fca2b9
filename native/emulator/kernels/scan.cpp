// Cumulative sums, products and extrema. ATen carries them in double for float and in float for half and
// bfloat16.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Scan = Tensor (*)(const Tensor&, int64_t, std::optional<ScalarType>);
using ScanOut = Tensor& (*)(Tensor&, const Tensor&, int64_t, std::optional<ScalarType>);

template <Scan Function, ScanOut Out>
void scan(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, const Tensor& out) {
    const auto type = dtype.value_or(out.scalar_type());
    if (type != out.scalar_type() || self.const_data_ptr() == out.const_data_ptr())
        return write(out, Function(self, dim, type));
    fill(out, [&](Tensor& to) { Out(to, self, dim, type); });
}
constexpr auto cumsum = scan<static_cast<Scan>(at::cumsum), static_cast<ScanOut>(at::cumsum_out)>;
constexpr auto cumprod = scan<static_cast<Scan>(at::cumprod), static_cast<ScanOut>(at::cumprod_out)>;

// exclusive: element j is the sum of what comes before j. reverse: from the last to the first.
void cumsum_v2(const Tensor& self, int64_t dim, bool exclusive, bool reverse, const Tensor& out) {
    const auto source = reverse ? self.flip(dim) : self;
    auto sums = at::cumsum(source, dim, out.scalar_type());
    if (exclusive && self.dim() == 0) {
        sums = at::zeros_like(sums);
    } else if (exclusive && self.size(dim) > 0) {
        const auto zeros = at::zeros_like(sums.narrow(dim, 0, 1));
        sums = at::cat({zeros, sums.narrow(dim, 0, sums.size(dim) - 1)}, dim);
    }
    write(out, reverse ? sums.flip(dim) : sums);
}

template <auto Function>
void extremum(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
    auto [value, index] = Function(self, dim);
    write(values, value);
    write(indices, index);
}
std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim) { return at::cummax(self, dim); }
std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim) { return at::cummin(self, dim); }

const Table table{
    {"aclnnCumsum", cumsum},
    {"aclnnCumsumV2", cumsum_v2},
    {"aclnnCumprod", [](const Tensor& self, const Scalar& dim, std::optional<ScalarType> dtype,
                        const Tensor& out) { cumprod(self, dim.toLong(), dtype, out); }},
    {"aclnnInplaceCumprod",
     [](const Tensor& self, const Scalar& dim) {
         write(self, at::cumprod(self, dim.toLong(), self.scalar_type()));
     }},
    {"aclnnCummax", extremum<cummax>},
    {"aclnnCummin", extremum<cummin>},
};

}  // namespace
}  // namespace npu::emulator
