// The place of an extremum or of an order statistic, with its value; and counts of values.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

void write_pair(const Tensor& values, const Tensor& indices, const std::tuple<Tensor, Tensor>& result) {
    write(values, std::get<0>(result));
    write(indices, std::get<1>(result));
}

using Located = std::tuple<Tensor, Tensor> (*)(const Tensor&, int64_t, bool);

template <Located Function>
void along(const Tensor& self, int64_t dim, bool keepdim, const Tensor& values, const Tensor& indices) {
    write_pair(values, indices, Function(self, dim, keepdim));
}

template <Tensor (*Function)(const Tensor&)>
void whole(const Tensor& self, const Tensor& out) {
    TORCH_CHECK(out.numel() == 1, "the output has shape ", out.sizes(), ", the result is one element");
    out.copy_(Function(self).reshape(out.sizes()));
}

std::tuple<Tensor, Tensor> max_along(const Tensor& self, int64_t dim, bool keepdim) {
    return at::max(self, dim, keepdim);
}
std::tuple<Tensor, Tensor> min_along(const Tensor& self, int64_t dim, bool keepdim) {
    return at::min(self, dim, keepdim);
}
std::tuple<Tensor, Tensor> median_along(const Tensor& self, int64_t dim, bool keepdim) {
    return at::median(self, dim, keepdim);
}
std::tuple<Tensor, Tensor> nanmedian_along(const Tensor& self, int64_t dim, bool keepdim) {
    return at::nanmedian(self, dim, keepdim);
}
Tensor median(const Tensor& self) { return at::median(self); }
Tensor nanmedian(const Tensor& self) { return at::nanmedian(self); }

void histogram(const Tensor& self, int64_t bins, const Scalar& low, const Scalar& high, const Tensor& out) {
    const bool exact = self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble;
    // Counts beyond 2^24 are not floats: other types count in double.
    write(out, at::histc(exact ? self : self.to(at::kDouble), bins, low, high));
}

const Table table{
    {"aclnnMaxDim", along<max_along>},
    {"aclnnMinDim", along<min_along>},
    {"aclnnMedianDim", along<median_along>},
    {"aclnnNanMedianDim", along<nanmedian_along>},
    {"aclnnMedian", whole<median>},
    {"aclnnNanMedian", whole<nanmedian>},
    {"aclnnArgMax", [](const Tensor& self, int64_t dim, bool keepdim,
                       const Tensor& out) { write(out, at::argmax(self, dim, keepdim)); }},
    {"aclnnArgMin", [](const Tensor& self, int64_t dim, bool keepdim,
                       const Tensor& out) { write(out, at::argmin(self, dim, keepdim)); }},
    {"aclnnKthvalue",
     [](const Tensor& self, int64_t k, int64_t dim, bool keepdim, const Tensor& values,
        const Tensor& indices) { write_pair(values, indices, at::kthvalue(self, k, dim, keepdim)); }},
    {"aclnnHistc", histogram},
    {"aclnnBincount", [](const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength,
                         const Tensor& out) { write(out, at::bincount(self, weights, minlength)); }},
};

}  // namespace
}  // namespace npu::emulator
