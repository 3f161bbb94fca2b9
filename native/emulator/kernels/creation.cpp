// Sequences and matrices made from scalars alone.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

const Table table{
    Entry("aclnnArange",
          [](const Scalar& start, const Scalar& end, const Scalar& step, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::arange_out(result, start, end, step); });
          }),
    Entry("aclnnRange",
          [](const Scalar& start, const Scalar& end, const Scalar& step, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::range_out(result, start, end, step); });
          }),
    Entry("aclnnLinspace",
          [](const Scalar& start, const Scalar& end, int64_t steps, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::linspace_out(result, start, end, steps); });
          }),
    Entry("aclnnLogSpace",
          [](const Scalar& start, const Scalar& end, int64_t steps, double base, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::logspace_out(result, start, end, steps, base); });
          }),
    Entry("aclnnEye",
          [](int64_t n, int64_t m, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::eye_out(result, n, m); });
          }),
};

}  // namespace
}  // namespace npu::emulator
