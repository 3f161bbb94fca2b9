// Distances between rows, and rows scaled to a largest norm. Half and bfloat16 are carried in float.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

// Every operand is spread over the pairs already ([..., rows of x1, rows of x2, columns]); the result is the
// gradient of x1, with or without the batch dimensions over which it was spread.
void cdist_grad(const Tensor& gradient, const Tensor& x1, const Tensor& x2, const Tensor& distance,
                double order, const Tensor& y) {
    // torch_npu hands an infinite order down as -1.
    const auto p = order == -1 ? std::numeric_limits<double>::infinity() : order;
    const auto difference = widen(x1) - widen(x2), grad = widen(gradient), dist = widen(distance);
    Tensor pairs;
    if (p == 0) {
        pairs = at::zeros_like(difference);
    } else if (p == 1) {
        pairs = grad * difference.sign();
    } else if (std::isinf(p)) {
        pairs = grad * difference.sign() * difference.abs().eq(dist);
    } else {
        pairs = difference.sign() * difference.abs().pow(p - 1) * grad / dist.pow(p - 1);
        pairs.masked_fill_(dist.eq(0).logical_or(difference.eq(0)), 0);
    }
    write(y, pairs.sum(-2).sum_to_size(y.sizes()));
}

const Table table{
    {Ge{"CdistGrad", {"p"}},
     [](const Tensor& gradient, const Tensor& x1, const Tensor& x2, const Tensor& distance,
        std::optional<double> p,
        const Tensor& y) { cdist_grad(gradient, x1, x2, distance, p.value_or(2), y); }},
    {"aclnnPdistForward",
     [](const Tensor& self, const Scalar& p, const Tensor& out) {
         write(out, at::_pdist_forward(widen(self).contiguous(), p.toDouble()));
     }},
    {"aclnnRenorm", [](const Tensor& self, const Scalar& p, int64_t dim, const Scalar& largest,
                       const Tensor& out) { write(out, at::renorm(widen(self), p, dim, largest)); }},
};

}  // namespace
}  // namespace npu::emulator
