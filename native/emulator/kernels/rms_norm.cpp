// Root-mean-square normalisation over the trailing dimensions that gamma has, alone and after an addition.
// x (..., gamma's shape); rstd (..., 1 for each dimension of gamma), float; y in x's shape.
#include <ATen/Parallel.h>

#include <cmath>

#include "kernels/rows.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

struct Shape {
    int64_t rows, width;
    std::vector<int64_t> statistics;

    Shape(const Tensor& x, const Tensor& gamma) {
        const auto kept = x.dim() - gamma.dim();
        TORCH_CHECK(gamma.dim() > 0 && kept >= 0 && x.sizes().slice(kept) == gamma.sizes(),
                    "gamma has shape ", gamma.sizes(), ", the trailing dimensions of x ", x.sizes(),
                    " must be the same");
        statistics = x.sizes().vec();
        std::fill(statistics.begin() + kept, statistics.end(), 1);
        width = gamma.numel();
        rows = width == 0 ? 0 : x.numel() / width;
    }
};

bool has_rows(const Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

// A row as floats: the memory itself, or converted into `room`.
const float* load(const Tensor& tensor, int64_t row, int64_t width, float* room) {
    if (tensor.scalar_type() == at::kFloat) return tensor.const_data_ptr<float>() + row * width;
    rows::widen(room, tensor.const_data_ptr<at::BFloat16>() + row * width, width);
    return room;
}

float* place(const Tensor& tensor, int64_t row, int64_t width, float* room) {
    return tensor.scalar_type() == at::kFloat ? mut(tensor).data_ptr<float>() + row * width : room;
}

void unload(const Tensor& tensor, int64_t row, int64_t width, const float* room) {
    if (tensor.scalar_type() == at::kFloat) return;
    rows::narrow(mut(tensor).data_ptr<at::BFloat16>() + row * width, room, width);
}

int64_t grain(int64_t width) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width)); }

void check_outputs(const Tensor& x, const Tensor& y, const Shape& shape, const Tensor& rstd) {
    TORCH_CHECK(y.sizes() == x.sizes(), "the output has shape ", y.sizes(), ", x has ", x.sizes());
    TORCH_CHECK(rstd.numel() == shape.rows, "rstd has shape ", rstd.sizes(), ", it must be ",
                at::IntArrayRef(shape.statistics));
}

// `offset` is added to gamma (Gemma's form).
void forward(const Tensor& x, const Tensor& gamma, double offset, double eps, const Tensor& y,
             const Tensor& rstd) {
    const Shape shape(x, gamma);
    check_outputs(x, y, shape, rstd);
    if (!has_rows(x) || !has_rows(y)) {
        const auto type = wide_type(x.scalar_type());
        const auto flat = x.to(type).reshape({shape.rows, shape.width});
        const auto inverse = at::rsqrt(flat.square().mean(1, true) + eps);
        write(y, (flat * inverse * (gamma.to(type) + offset).reshape({shape.width})).reshape(x.sizes()));
        return rstd.copy_(inverse.reshape(rstd.sizes())), void();
    }
    const auto input = x.contiguous(), output = dense(y, y.scalar_type()), inverse = dense(rstd, at::kFloat);
    const auto weight = (offset == 0 ? gamma.to(at::kFloat) : gamma.to(at::kFloat) + offset).contiguous();
    const auto width = shape.width;
    const float* const gain = weight.const_data_ptr<float>();
    float* const inverses = inverse.data_ptr<float>();
    at::parallel_for(0, shape.rows, grain(width), [&](int64_t begin, int64_t end) {
        std::vector<float> room(width), result(width);
        for (int64_t row = begin; row < end; ++row) {
            const float* in = load(input, row, width, room.data());
            const float mean = rows::sum_of_squares(in, width) / static_cast<float>(width);
            inverses[row] = 1 / std::sqrt(mean + static_cast<float>(eps));
            rows::scale(place(output, row, width, result.data()), in, inverses[row], gain, width);
            unload(output, row, width, result.data());
        }
    });
    store(y, output);
    store(rstd, inverse);
}

void backward(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& gamma, const Tensor& dx,
              const Tensor& dgamma) {
    const Shape shape(x, gamma);
    check_outputs(x, dx, shape, rstd);
    TORCH_CHECK(dgamma.sizes() == gamma.sizes(), "dgamma has shape ", dgamma.sizes(), ", gamma has ",
                gamma.sizes());
    const auto width = shape.width;
    if (!has_rows(x) || !has_rows(dy) || !has_rows(dx)) {
        const auto type = wide_type(x.scalar_type());
        const auto up = dy.to(type).reshape({shape.rows, width}),
                   in = x.to(type).reshape({shape.rows, width});
        const auto inverse = rstd.to(type).reshape({shape.rows, 1}), normal = in * inverse;
        const auto weighted = up * gamma.to(type).reshape({width});
        write(dx, ((weighted - normal * (weighted * normal).mean(1, true)) * inverse).reshape(x.sizes()));
        return write(dgamma, (up * normal).sum(0).reshape(gamma.sizes()));
    }
    const auto up = dy.contiguous(), input = x.contiguous(), inverse = rstd.to(at::kFloat).contiguous();
    const auto weight = gamma.to(at::kFloat).contiguous(), output = dense(dx, dx.scalar_type());
    const float* const gain = weight.const_data_ptr<float>();
    const float* const inverses = inverse.const_data_ptr<float>();
    // Partial sums of dgamma over a fixed number of groups of rows, whatever the number of threads.
    constexpr int64_t kGroups = 16;
    const auto groups = std::min<int64_t>(kGroups, std::max<int64_t>(shape.rows, 1));
    const auto partial = at::zeros({groups, width}, at::kFloat);
    float* const sums = partial.data_ptr<float>();
    at::parallel_for(0, groups, shape.rows * width < 16384 ? groups : 1, [&](int64_t begin, int64_t end) {
        std::vector<float> room(width), up_room(width), result(width);
        for (int64_t group = begin; group < end; ++group) {
            const auto last = shape.rows * (group + 1) / groups;
            for (int64_t row = shape.rows * group / groups; row < last; ++row) {
                const float* in = load(input, row, width, room.data());
                const float* upstream = load(up, row, width, up_room.data());
                const float r = inverses[row];
                const float mean =
                    rows::sum_of_products(upstream, in, gain, width) / static_cast<float>(width);
                rows::rms_gradient(place(output, row, width, result.data()), sums + group * width, upstream,
                                   in, gain, r, mean * r * r, width);
                unload(output, row, width, result.data());
            }
        }
    });
    store(dx, output);
    dgamma.copy_(partial.sum(0).reshape(gamma.sizes()));
}

// x = x1 + x2 in x's own type, as if it had been stored before it is normalised.
void add(const Tensor& x1, const Tensor& x2, const Tensor& x) {
    if (x1.scalar_type() == x.scalar_type() && x2.scalar_type() == x.scalar_type()) {
        fill(x, [&](Tensor& to) { at::add_out(to, x1, x2); });
    } else {
        write(x, widen(x1) + widen(x2));
    }
}

const Table table{
    {"aclnnRmsNorm", [](const Tensor& x, const Tensor& gamma, double eps, const Tensor& y,
                        const Tensor& rstd) { forward(x, gamma, 0, eps, y, rstd); }},
    {"aclnnGemmaRmsNorm", [](const Tensor& x, const Tensor& gamma, double eps, const Tensor& y,
                             const Tensor& rstd) { forward(x, gamma, 1, eps, y, rstd); }},
    {"aclnnRmsNormGrad",
     [](const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& gamma, const Tensor& dx,
        const Tensor& dgamma) { backward(dy, x, rstd, gamma, dx, dgamma); }},
    {"aclnnAddRmsNorm",
     [](const Tensor& x1, const Tensor& x2, const Tensor& gamma, double eps, const Tensor& y,
        const Tensor& rstd, const Tensor& x) {
         add(x1, x2, x);
         forward(x, gamma, 0, eps, y, rstd);
     }},
    // x1 takes the normalised sum, x2 the sum.
    {"aclnnInplaceAddRmsNorm",
     [](const Tensor& x1, const Tensor& x2, const Tensor& gamma, double eps, const Tensor& rstd) {
         write(x2, widen(x1) + widen(x2));
         forward(x2, gamma, 0, eps, x1, rstd);
     }},
    // y1 is the result in float, y2 the same in x's type.
    {"aclnnAddRmsNormCast",
     [](const Tensor& x1, const Tensor& x2, const Tensor& gamma, double eps, const Tensor& y1,
        const Tensor& y2, const Tensor& rstd, const Tensor& x) {
         add(x1, x2, x);
         forward(x, gamma, 0, eps, y1, rstd);
         write(y2, y1);
     }},
};

}  // namespace
}  // namespace npu::emulator
