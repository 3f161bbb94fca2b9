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

// exclusive: element j is the sum (or product) of what comes before j, `empty` where nothing does. reverse:
// from the last to the first.
template <Scan Function>
void running(const Tensor& self, int64_t dim, bool exclusive, bool reverse, int64_t empty,
             const Tensor& out) {
    const auto source = reverse ? self.flip(dim) : self;
    auto result = Function(source, dim, out.scalar_type());
    if (exclusive && self.dim() == 0) {
        result = at::full_like(result, empty);
    } else if (exclusive && self.size(dim) > 0) {
        const auto first = at::full_like(result.narrow(dim, 0, 1), empty);
        result = at::cat({first, result.narrow(dim, 0, result.size(dim) - 1)}, dim);
    }
    write(out, reverse ? result.flip(dim) : result);
}
void cumsum_v2(const Tensor& self, int64_t dim, bool exclusive, bool reverse, const Tensor& out) {
    running<static_cast<Scan>(at::cumsum)>(self, dim, exclusive, reverse, 0, out);
}
void ge_cumsum(const Tensor& self, int64_t dim, std::optional<bool> exclusive, std::optional<bool> reverse,
               const Tensor& out) {
    cumsum_v2(self, dim, exclusive.value_or(false), reverse.value_or(false), out);
}
void ge_cumprod(const Tensor& self, int64_t dim, std::optional<bool> exclusive, std::optional<bool> reverse,
                const Tensor& out) {
    running<static_cast<Scan>(at::cumprod)>(self, dim, exclusive.value_or(false), reverse.value_or(false), 1,
                                            out);
}

void log_sum_exp(const Tensor& self, int64_t dim, std::optional<bool> reverse, const Tensor& out) {
    const bool backwards = reverse.value_or(false);
    const auto sums = at::logcumsumexp(widen(backwards ? self.flip(dim) : self), dim);
    write(out, backwards ? sums.flip(dim) : sums);
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
    // The axis is an input, or the first attribute.
    {Ge{"Cumsum", {"exclusive", "reverse"}}, ge_cumsum},
    {Ge{"CumsumD", {"axis", "exclusive", "reverse"}}, ge_cumsum},
    {Ge{"Cumprod", {"exclusive", "reverse"}}, ge_cumprod},
    {Ge{"CumprodD", {"axis", "exclusive", "reverse"}}, ge_cumprod},
    // What comes before the first element is -inf to some, the lowest finite number to others: not exclusive.
    {Ge{"CumulativeLogsumexp", {"reverse", "exclusive?=false"}}, log_sum_exp},
    {Ge{"CumulativeLogsumexpD", {"axis", "reverse", "exclusive?=false"}}, log_sum_exp},
    {Ge{"Cummax", {"dim"}}, [](const Tensor& x, int64_t dim, const Tensor& y,
                               const Tensor& places) { extremum<cummax>(x, dim, y, places); }},
    {Ge{"Cummin", {"axis"}}, [](const Tensor& x, int64_t dim, const Tensor& y,
                                const Tensor& places) { extremum<cummin>(x, dim, y, places); }},
};

}  // namespace
}  // namespace npu::emulator
