#include "kernels/rows.h"

#include <cmath>
#include <cstring>

// One body per instruction set, where the tool chain can choose among them at load time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define NPU_PER_INSTRUCTION_SET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define NPU_PER_INSTRUCTION_SET
#endif

namespace npu::emulator::rows {
namespace {

constexpr int64_t kLanes = 32;

float total(const float (&lanes)[kLanes]) {
    double sum = 0;
    for (const float lane : lanes) sum += lane;
    return static_cast<float>(sum);
}

}  // namespace

NPU_PER_INSTRUCTION_SET
float sum_of_squares(const float* __restrict x, int64_t n) {
    float lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k] * x[i + k];
    }
    for (; i < n; ++i) lanes[i % kLanes] += x[i] * x[i];
    return total(lanes);
}

NPU_PER_INSTRUCTION_SET
float sum_of_products(const float* __restrict a, const float* __restrict b, const float* __restrict c,
                      int64_t n) {
    float lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) lanes[k] += a[i + k] * b[i + k] * c[i + k];
    }
    for (; i < n; ++i) lanes[i % kLanes] += a[i] * b[i] * c[i];
    return total(lanes);
}

NPU_PER_INSTRUCTION_SET
float sum(const float* __restrict x, int64_t n) {
    float lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k];
    }
    for (; i < n; ++i) lanes[i % kLanes] += x[i];
    return total(lanes);
}

NPU_PER_INSTRUCTION_SET
float largest(const float* __restrict x, int64_t n, float floor) {
    float lanes[kLanes];
    for (float& lane : lanes) lane = floor;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
    }
    for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    for (const float lane : lanes) floor = lane > floor ? lane : floor;
    return floor;
}

NPU_PER_INSTRUCTION_SET
void subtract(float* x, float amount, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] -= amount;
}

NPU_PER_INSTRUCTION_SET
void multiply(float* x, float factor, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

NPU_PER_INSTRUCTION_SET
void softmax_gradient(float* __restrict dy, const float* __restrict y, float dot, int64_t n) {
    for (int64_t i = 0; i < n; ++i) dy[i] = (dy[i] - dot) * y[i];
}

NPU_PER_INSTRUCTION_SET
void scale(float* y, const float* x, float factor, const float* __restrict gamma, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor * gamma[i];
}

NPU_PER_INSTRUCTION_SET
void rms_gradient(float* dx, float* __restrict dgamma, const float* dy, const float* x,
                  const float* __restrict gamma, float rstd, float slope, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const float up = dy[i], value = x[i];
        dgamma[i] += up * value * rstd;
        dx[i] = (up * gamma[i] - value * slope) * rstd;
    }
}

// By masks: a branch on a condition that nobody can guess costs more than both sides.
NPU_PER_INSTRUCTION_SET
void select(float* y, const bool* chosen, const float* yes, bool one_yes, const float* no, bool one_no,
            int64_t n) {
    typedef uint32_t Bits __attribute__((may_alias));
    auto* const to = reinterpret_cast<Bits*>(y);  // may be the memory of a side, at the same places
    const auto* const a = reinterpret_cast<const Bits*>(yes);
    const auto* const b = reinterpret_cast<const Bits*>(no);
    const Bits first = *a, second = *b;
    const auto mask = [](bool flag) { return Bits{0} - static_cast<Bits>(flag); };
    if (one_yes && one_no) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = second ^ ((first ^ second) & mask(chosen[i]));
    } else if (one_yes) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = b[i] ^ ((first ^ b[i]) & mask(chosen[i]));
    } else if (one_no) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = second ^ ((a[i] ^ second) & mask(chosen[i]));
    } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] = b[i] ^ ((a[i] ^ b[i]) & mask(chosen[i]));
    }
}

NPU_PER_INSTRUCTION_SET
void times_matrix(float* __restrict y, const float* __restrict x, const float* __restrict w, int64_t k,
                  int64_t n, int64_t stride) {
    // Sums of a block of columns stay in registers while the rows of w pass by.
    typedef float Lanes __attribute__((vector_size(64)));
    constexpr int64_t kWidth = 16, kBlock = 8 * kWidth;
    int64_t j = 0;
    for (; j + kBlock <= n; j += kBlock) {
        Lanes sums[8] = {};
        for (int64_t i = 0; i < k; ++i) {
            const float* row = w + i * stride + j;
#pragma GCC unroll 8
            for (int64_t b = 0; b < 8; ++b) {
                Lanes part;
                std::memcpy(&part, row + b * kWidth, sizeof part);
                sums[b] += x[i] * part;
            }
        }
        std::memcpy(y + j, sums, sizeof sums);
    }
    for (; j + kWidth <= n; j += kWidth) {
        Lanes sum = {};
        for (int64_t i = 0; i < k; ++i) {
            Lanes part;
            std::memcpy(&part, w + i * stride + j, sizeof part);
            sum += x[i] * part;
        }
        std::memcpy(y + j, &sum, sizeof sum);
    }
    for (; j < n; ++j) {
        float sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += x[i] * w[i * stride + j];
        y[j] = sum;
    }
}

NPU_PER_INSTRUCTION_SET
void times_transposed(float* __restrict y, const float* __restrict x, const float* __restrict w, int64_t k,
                      int64_t n, int64_t stride) {
    typedef float Lanes __attribute__((vector_size(64)));
    constexpr int64_t kWidth = 16;
    for (int64_t j = 0; j < n; ++j) {
        const float* row = w + j * stride;
        Lanes sums = {};
        int64_t i = 0;
        for (; i + kWidth <= k; i += kWidth) {
            Lanes left, right;
            std::memcpy(&left, x + i, sizeof left);
            std::memcpy(&right, row + i, sizeof right);
            sums += left * right;
        }
        float sum = 0;
        for (int64_t l = 0; l < kWidth; ++l) sum += sums[l];
        for (; i < k; ++i) sum += x[i] * row[i];
        y[j] = sum;
    }
}

NPU_PER_INSTRUCTION_SET
void add(float* __restrict y, const float* __restrict x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

NPU_PER_INSTRUCTION_SET
void widen(float* __restrict y, const c10::BFloat16* __restrict x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t bits = static_cast<uint32_t>(x[i].x) << 16;
        std::memcpy(&y[i], &bits, sizeof(bits));
    }
}

NPU_PER_INSTRUCTION_SET
void narrow(c10::BFloat16* __restrict y, const float* __restrict x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, &x[i], sizeof(bits));
        const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
        const bool nan = (bits & 0x7fffffff) > 0x7f800000;
        y[i].x = static_cast<uint16_t>(nan ? 0x7fc0 : rounded);
    }
}

NPU_PER_INSTRUCTION_SET
void adamw(float* __restrict param, float* __restrict m, float* __restrict v, float* __restrict max_v,
           const float* __restrict grad, const AdamW& by, int64_t n) {
    const AdamW c = by;
    const float sign = c.maximize ? -1.0F : 1.0F;
    if (max_v == nullptr) {
        for (int64_t i = 0; i < n; ++i) {
            const float g = sign * grad[i];
            const float mean = m[i] + (1 - c.beta1) * (g - m[i]);
            const float square = v[i] * c.beta2 + (1 - c.beta2) * g * g;
            m[i] = mean;
            v[i] = square;
            param[i] = param[i] * c.keep - c.step_size * mean / (std::sqrt(square) * c.inverse_root + c.eps);
        }
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        const float g = sign * grad[i];
        const float mean = m[i] + (1 - c.beta1) * (g - m[i]);
        const float square = v[i] * c.beta2 + (1 - c.beta2) * g * g;
        const float largest = max_v[i] > square ? max_v[i] : square;
        m[i] = mean;
        v[i] = square;
        max_v[i] = largest;
        param[i] = param[i] * c.keep - c.step_size * mean / (std::sqrt(largest) * c.inverse_root + c.eps);
    }
}

}  // namespace npu::emulator::rows
