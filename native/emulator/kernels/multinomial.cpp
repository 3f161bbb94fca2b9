// Sampling of categories by weight.
#include <algorithm>
#include <numeric>

#include "kernels/random.h"

namespace npu::emulator {
namespace {

// With replacement: the category in which a uniform point of the cumulative weight falls.
void draw_with(const double* weights, int64_t categories, int64_t* out, int64_t samples,
               const RandomState& state, uint64_t first_block) {
    std::vector<double> cumulative(categories);
    std::partial_sum(weights, weights + categories, cumulative.begin());
    const double total = cumulative.back();
    for (int64_t i = 0; i < samples; ++i) {
        const auto words = random_block(state, first_block + static_cast<uint64_t>(i / 2));
        const double point = unit_double(i % 2 == 0 ? low_word(words) : high_word(words)) * total;
        auto found = std::ranges::upper_bound(cumulative, point);
        // Rounding may put the point at the total itself: the last category that has weight.
        if (found == cumulative.end()) found = std::ranges::lower_bound(cumulative, total);
        out[i] = found - cumulative.begin();
    }
}

// Without: the first `samples` arrivals of one exponential clock per category (Efraimidis and Spirakis,
// 2006).
void draw_without(const double* weights, int64_t categories, int64_t* out, int64_t samples,
                  const RandomState& state, uint64_t first_block) {
    std::vector<double> arrival(categories);
    int64_t possible = 0;
    for (int64_t i = 0; i < categories; ++i) {
        const auto words = random_block(state, first_block + static_cast<uint64_t>(i / 2));
        const double unit = unit_double(i % 2 == 0 ? low_word(words) : high_word(words)) + 0x1p-54;
        arrival[i] =
            weights[i] > 0 ? -std::log1p(-unit) / weights[i] : std::numeric_limits<double>::infinity();
        possible += weights[i] > 0;
    }
    TORCH_CHECK(samples <= possible, "cannot draw ", samples, " samples without replacement from ", possible,
                " categories of non-zero weight");
    std::vector<int64_t> order(categories);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::partial_sort(order, order.begin() + samples, [&](int64_t left, int64_t right) {
        return arrival[left] != arrival[right] ? arrival[left] < arrival[right] : left < right;
    });
    std::copy_n(order.begin(), samples, out);
}

void multinomial(const Tensor& self, int64_t samples, bool replacement, const RandomState& state,
                 const Tensor& out) {
    TORCH_CHECK(self.dim() == 1 || self.dim() == 2, "takes weights of 1 or 2 dimensions, got ", self.sizes());
    const Tensor weights = self.to(at::kDouble).contiguous();
    TORCH_CHECK(weights.isfinite().logical_and_(weights.ge(0)).all().item().toBool(),
                "expects finite weights of at least 0");
    TORCH_CHECK(weights.sum(-1).gt(0).all().item().toBool(),
                "expects a positive sum of weights in every row");
    auto sizes = self.sizes().vec();
    const int64_t categories = sizes.back();
    sizes.back() = samples;
    Tensor drawn = at::empty(sizes, at::kLong);
    const int64_t rows = self.dim() == 2 ? self.size(0) : 1;
    const auto blocks = static_cast<uint64_t>((replacement ? samples : categories) + 1) / 2;
    at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            auto* draw = replacement ? draw_with : draw_without;
            draw(weights.const_data_ptr<double>() + row * categories, categories,
                 drawn.data_ptr<int64_t>() + row * samples, samples, state,
                 static_cast<uint64_t>(row) * blocks);
        }
    });
    write(out, drawn);
}

const Table table{
    {"aclnnMultinomial",
     [](const Tensor& self, int64_t samples, bool replacement, int64_t seed, int64_t offset,
        const Tensor& out) { multinomial(self, samples, replacement, {seed, offset}, out); }},
    {"aclnnMultinomialTensor",
     [](const Tensor& self, int64_t samples, bool replacement, const Tensor& seed, const Tensor& first,
        int64_t offset,
        const Tensor& out) { multinomial(self, samples, replacement, {seed, first, offset}, out); }},
};

}  // namespace
}  // namespace npu::emulator
