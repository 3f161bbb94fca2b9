// Loops over one row of floats that are memory-bound when the compiler may use the machine's vectors:
// compiled once per instruction set, chosen when the library loads. Sums run in a fixed number of lanes, so
// that a result does not depend on the number of threads.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace npu::emulator::rows {

float sum_of_squares(const float* x, int64_t n);
float sum_of_products(const float* a, const float* b, const float* c, int64_t n);
float sum(const float* x, int64_t n);
// The largest of floor and the elements; a NaN is passed over.
float largest(const float* x, int64_t n, float floor);
void subtract(float* x, float amount, int64_t n);
void multiply(float* x, float factor, int64_t n);
// dy becomes (dy - dot) * y: the gradient of a softmax whose rows are y, with dot = sum(dy * y).
void softmax_gradient(float* dy, const float* y, float dot, int64_t n);
// y = x * factor * gamma
void scale(float* y, const float* x, float factor, const float* gamma, int64_t n);
// dx = (dy * gamma - x * slope) * rstd; dgamma += dy * x * rstd
void rms_gradient(float* dx, float* dgamma, const float* dy, const float* x, const float* gamma, float rstd,
                  float slope, int64_t n);
void add(float* y, const float* x, int64_t n);
// y[i] = chosen[i] ? yes[i] : no[i]; a side of one element stands opposite all of the others
void select(float* y, const bool* chosen, const float* yes, bool one_yes, const float* no, bool one_no,
            int64_t n);
// y[j] = sum of x[i] * w[i * stride + j] over i < k, for j < n
void times_matrix(float* y, const float* x, const float* w, int64_t k, int64_t n, int64_t stride);
// y[j] = sum of x[i] * w[j * stride + i] over i < k, for j < n
void times_transposed(float* y, const float* x, const float* w, int64_t k, int64_t n, int64_t stride);
void widen(float* y, const c10::BFloat16* x, int64_t n);
void narrow(c10::BFloat16* y, const float* x, int64_t n);

struct AdamW {
    float keep;  // 1 - lr * weight_decay
    float beta1, beta2;
    float step_size;     // lr / (1 - beta1^t)
    float inverse_root;  // 1 / sqrt(1 - beta2^t)
    float eps;
    bool maximize;
};
// max_v may be null: no AMSGrad.
void adamw(float* param, float* m, float* v, float* max_v, const float* grad, const AdamW& by, int64_t n);

}  // namespace npu::emulator::rows
