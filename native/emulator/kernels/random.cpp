// Operators that draw numbers: uniform, normal, integers, flags. The generator is in random.h.
#include "kernels/random.h"

#include <c10/util/BFloat16-math.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace npu::emulator {
namespace {

template <class T>
T next_towards(T value, T target) {
    return std::nextafter(value, target);
}

// The uniform number as T: T's own precision, rounded down where rounding would reach `to`.
template <class T>
T uniform_value(double unit, double from, double to) {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto low = static_cast<Wide>(from);
    const auto width = static_cast<Wide>(to - from);
    T value = static_cast<T>(static_cast<Wide>(unit) * width + low);
    if (static_cast<double>(value) >= to && from < to) {
        const T below = next_towards(value, static_cast<T>(-std::numeric_limits<Wide>::infinity()));
        if (static_cast<double>(below) >= from) value = below;
    }
    return value;
}

template <class T>
void fill_uniform(T* out, int64_t count, double from, double to, const RandomState& state) {
    if constexpr (std::is_same_v<T, double>) {
        fill_random<2>(out, count, state, [=](const RandomWords& words, T* values) {
            values[0] = uniform_value<T>(unit_double(low_word(words)), from, to);
            values[1] = uniform_value<T>(unit_double(high_word(words)), from, to);
        });
    } else {
        constexpr int bits = std::numeric_limits<T>::digits;
        fill_random<4>(out, count, state, [=](const RandomWords& words, T* values) {
            for (int i = 0; i < 4; ++i) {
                const double unit = std::ldexp(static_cast<double>(words[i] >> (32 - bits)), -bits);
                values[i] = uniform_value<T>(unit, from, to);
            }
        });
    }
}

// Box and Muller: two uniform numbers give two normal ones.
template <class T>
void normal_pair(T first, T second, T* values) {
    const T radius = std::sqrt(T(-2) * std::log(first));
    const T angle = T(2 * std::numbers::pi) * second;
    values[0] = radius * std::cos(angle);
    values[1] = radius * std::sin(angle);
}

Tensor integers(IntArrayRef sizes, int64_t from, uint64_t range, const RandomState& state) {
    Tensor values = at::empty(sizes, at::kLong);
    fill_random<2>(values.data_ptr<int64_t>(), values.numel(), state,
                   [=](const RandomWords& words, int64_t* pair) {
                       const auto shift = static_cast<uint64_t>(from);
                       pair[0] = static_cast<int64_t>(shift + bounded(low_word(words), range));
                       pair[1] = static_cast<int64_t>(shift + bounded(high_word(words), range));
                   });
    return values;
}

void write_integers(const Tensor& out, int64_t from, int64_t to, const RandomState& state) {
    TORCH_CHECK(from < to, "expects from < to, got from = ", from, " and to = ", to);
    write(out, integers(out.sizes(), from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from), state));
}

// Every number of an integer type from 0 on; every integer that a floating type represents without a gap.
uint64_t natural_range(ScalarType type) {
    switch (type) {
        case at::kBool:
            return 2;
        case at::kByte:
            return 1ULL << 8;
        case at::kChar:
            return 1ULL << 7;
        case at::kShort:
            return 1ULL << 15;
        case at::kInt:
            return 1ULL << 31;
        case at::kLong:
            return 1ULL << 63;
        case at::kBFloat16:
            return (1ULL << 8) + 1;
        case at::kHalf:
            return (1ULL << 11) + 1;
        case at::kFloat:
            return (1ULL << 24) + 1;
        case at::kDouble:
            return (1ULL << 53) + 1;
        default:
            TORCH_CHECK(false, "has no range of random numbers for dtype ", type);
    }
}

void write_natural(const Tensor& out, const RandomState& state) {
    write(out, integers(out.sizes(), 0, natural_range(out.scalar_type()), state));
}

// mean + std * z, in z's precision. Either may be a tensor that broadcasts to the output.
template <class Mean, class Std>
void write_normal(const Tensor& out, const Mean& mean, const Std& std, const RandomState& state) {
    Tensor z = standard_normal(out.sizes(), out.scalar_type(), state);
    const auto widen = [&](const auto& value) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Tensor>) {
            return value.to(z.scalar_type());
        } else {
            return Scalar(value);
        }
    };
    write(out, z.mul_(widen(std)).add_(widen(mean)));
}

void check_std(double std) { TORCH_CHECK(std >= 0, "expects a standard deviation of at least 0, got ", std); }

// -log(1 - u) / lambda, in (0, inf): u is below 1, and 0 is moved to the smallest positive number.
void write_exponential(const Tensor& out, double lambda, const RandomState& state) {
    TORCH_CHECK(lambda > 0, "expects lambda > 0, got ", lambda);
    Tensor values = at::empty(out.sizes(), at::kDouble);
    fill_random<2>(values.data_ptr<double>(), values.numel(), state,
                   [=](const RandomWords& words, double* pair) {
                       pair[0] = -std::log1p(-(unit_double(low_word(words)) + 0x1p-54)) / lambda;
                       pair[1] = -std::log1p(-(unit_double(high_word(words)) + 0x1p-54)) / lambda;
                   });
    write(out, values);
}

// Fisher and Yates: position i takes the value of a random position of those not placed yet.
void write_permutation(const Tensor& out, int64_t count, const RandomState& state) {
    TORCH_CHECK(count >= 0, "expects n of at least 0, got ", count);
    Tensor order = at::arange(count, at::kLong);
    auto* values = order.data_ptr<int64_t>();
    for (int64_t i = 0; i + 1 < count; i += 2) {
        const auto words = random_block(state, static_cast<uint64_t>(i / 2));
        const auto left = static_cast<uint64_t>(count - i);
        std::swap(values[i], values[i + static_cast<int64_t>(bounded(low_word(words), left))]);
        std::swap(values[i + 1], values[i + 1 + static_cast<int64_t>(bounded(high_word(words), left - 1))]);
    }
    write(out, order);
}

void rrelu(const Tensor& self, const Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
           int64_t seed, int64_t offset, const Tensor& out) {
    if (!training) {
        write(out, at::leaky_relu(self, (lower.toDouble() + upper.toDouble()) / 2));
        return;
    }
    const Tensor slopes = at::empty(self.sizes(), noise.scalar_type());
    write_uniform(slopes, lower.toDouble(), upper.toDouble(), {seed, offset});
    const Tensor positive = self.gt(0);
    const Tensor result = at::where(positive, self, self.mul(slopes));
    write(noise, slopes.masked_fill(positive, 1));
    write(out, result);
}

const Table table{
    {"aclnnInplaceUniform", [](const Tensor& self, double from, double to, int64_t seed,
                               int64_t offset) { write_uniform(self, from, to, {seed, offset}); }},
    {"aclnnInplaceUniformTensor",
     [](const Tensor& self, double from, double to, const Tensor& seed, const Tensor& first, int64_t offset) {
         write_uniform(self, from, to, {seed, first, offset});
     }},
    {"aclnnInplaceNormal",
     [](const Tensor& self, double mean, double std, int64_t seed, int64_t offset) {
         check_std(std);
         write_normal(self, mean, std, {seed, offset});
     }},
    {"aclnnInplaceNormalTensor",
     [](const Tensor& self, double mean, double std, const Tensor& seed, const Tensor& first,
        int64_t offset) {
         check_std(std);
         write_normal(self, mean, std, {seed, first, offset});
     }},
    {"aclnnNormalFloatFloat",
     [](double mean, double std, int64_t seed, int64_t offset, const Tensor& out) {
         check_std(std);
         write_normal(out, mean, std, {seed, offset});
     }},
    {"aclnnNormalFloatTensor", [](double mean, const Tensor& std, int64_t seed, int64_t offset,
                                  const Tensor& out) { write_normal(out, mean, std, {seed, offset}); }},
    {"aclnnNormalTensorFloat",
     [](const Tensor& mean, double std, int64_t seed, int64_t offset, const Tensor& out) {
         check_std(std);
         write_normal(out, mean, std, {seed, offset});
     }},
    {"aclnnNormalTensorTensor", [](const Tensor& mean, const Tensor& std, int64_t seed, int64_t offset,
                                   const Tensor& out) { write_normal(out, mean, std, {seed, offset}); }},
    {"aclnnInplaceRandom", [](const Tensor& self, int64_t from, int64_t to, int64_t seed,
                              int64_t offset) { write_integers(self, from, to, {seed, offset}); }},
    {"aclnnInplaceRandomTensor",
     [](const Tensor& self, int64_t from, int64_t to, const Tensor& seed, const Tensor& first,
        int64_t offset) { write_integers(self, from, to, {seed, first, offset}); }},
    {"aclnnInplaceRandomWithoutFromTo",
     [](const Tensor& self, int64_t seed, int64_t offset) { write_natural(self, {seed, offset}); }},
    {"aclnnInplaceRandomWithoutFromToTensor",
     [](const Tensor& self, const Tensor& seed, const Tensor& first, int64_t offset) {
         write_natural(self, {seed, first, offset});
     }},
    {"aclnnBernoulli",
     [](const Tensor&, const Scalar& prob, int64_t seed, int64_t offset, const Tensor& out) {
         write(out, random_flags(out.sizes(), prob.toDouble(), {seed, offset}));
     }},
    {"aclnnBernoulliTensor",
     [](const Tensor&, const Tensor& prob, int64_t seed, int64_t offset, const Tensor& out) {
         write(out, random_flags(out.sizes(), prob, {seed, offset}));
     }},
    {"aclnnRandperm", [](int64_t n, int64_t seed, int64_t offset,
                         const Tensor& out) { write_permutation(out, n, {seed, offset}); }},
    {"aclnnSimThreadExponential",
     [](const Tensor& self, int64_t count, double lambda, int64_t seed, int64_t offset) {
         TORCH_CHECK(count == self.numel(), "count is ", count, ", the tensor has ", self.numel(),
                     " elements");
         write_exponential(self, lambda, {seed, offset});
     }},
    {"aclnnRReluWithNoise", rrelu},
};

}  // namespace

Tensor random_flags(IntArrayRef sizes, const Tensor& probability, const RandomState& state) {
    const Tensor p = probability.to(at::kDouble);
    TORCH_CHECK(p.numel() == 0 || p.ge(0).logical_and_(p.le(1)).all().item().toBool(),
                "expects probabilities in [0, 1]");
    const Tensor threshold = p.expand(sizes).contiguous();
    Tensor units = at::empty(sizes, at::kDouble);
    fill_random<4>(units.data_ptr<double>(), units.numel(), state,
                   [](const RandomWords& words, double* values) {
                       for (int i = 0; i < 4; ++i) values[i] = unit_double(words[i]);
                   });
    return units.lt(threshold);
}

Tensor random_flags(IntArrayRef sizes, double probability, const RandomState& state) {
    TORCH_CHECK(probability >= 0 && probability <= 1, "expects a probability in [0, 1], got ", probability);
    Tensor flags = at::empty(sizes, at::kBool);
    fill_random<4>(flags.data_ptr<bool>(), flags.numel(), state, [=](const RandomWords& words, bool* values) {
        for (int i = 0; i < 4; ++i) values[i] = unit_double(words[i]) < probability;
    });
    return flags;
}

Tensor standard_normal(IntArrayRef sizes, ScalarType type, const RandomState& state) {
    if (type == at::kDouble) {
        Tensor values = at::empty(sizes, at::kDouble);
        fill_random<2>(
            values.data_ptr<double>(), values.numel(), state, [](const RandomWords& words, double* pair) {
                normal_pair<double>(1 - unit_double(low_word(words)), unit_double(high_word(words)), pair);
            });
        return values;
    }
    TORCH_CHECK(at::isFloatingType(type), "draws floating-point numbers only, the output is ", type);
    Tensor values = at::empty(sizes, at::kFloat);
    fill_random<4>(values.data_ptr<float>(), values.numel(), state,
                   [](const RandomWords& words, float* four) {
                       for (int i = 0; i < 4; i += 2) {  // (0, 1]: the logarithm is finite
                           normal_pair<float>((static_cast<float>(words[i]) + 1) * 0x1p-32F,
                                              static_cast<float>(words[i + 1] >> 8) * 0x1p-24F, four + i);
                       }
                   });
    return values;
}

void write_uniform(const Tensor& out, double from, double to, const RandomState& state) {
    TORCH_CHECK(from <= to, "expects from <= to, got from = ", from, " and to = ", to);
    TORCH_CHECK(at::isFloatingType(out.scalar_type()), "draws floating-point numbers only, the output is ",
                out.scalar_type());
    const Tensor values = at::empty(out.sizes(), out.scalar_type());
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "uniform", [&] {
        fill_uniform(values.data_ptr<scalar_t>(), values.numel(), from, to, state);
    });
    write(out, values);
}

}  // namespace npu::emulator
