// Gated activations: x is halved along a dimension, one half is activated and multiplies the other. Computed
// in float for half and bfloat16.
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

struct Halves {
    Tensor first, second;  // widened

    Halves(const Tensor& x, int64_t dim) {
        TORCH_CHECK(x.dim() > 0 && dim >= -x.dim() && dim < x.dim(), "dim ", dim, " is outside of x ",
                    x.sizes());
        const auto size = x.size(dim);
        TORCH_CHECK(size % 2 == 0, "dimension ", dim, " of x ", x.sizes(), " cannot be halved");
        first = widen(x.narrow(dim, 0, size / 2));
        second = widen(x.narrow(dim, size / 2, size / 2));
    }
};

// The gradient of x, half by half, written where the halves came from.
void write_halves(const Tensor& out, int64_t dim, const Tensor& first, const Tensor& second) {
    const auto half = out.size(dim) / 2;
    TORCH_CHECK(2 * half == first.size(dim) + second.size(dim), "the output has shape ", out.sizes(),
                ", its halves along ", dim, " have ", first.sizes());
    write(out.narrow(dim, 0, half), first);
    write(out.narrow(dim, half, half), second);
}

void swiglu(const Tensor& x, std::optional<int64_t> dim, const Tensor& out) {
    const Halves halves(x, dim.value_or(-1));
    const Tensor gate = at::silu(halves.first);
    fill(out, [&](Tensor& result) { at::mul_out(result, gate, halves.second); });
}

void swiglu_grad(const Tensor& grad, const Tensor& x, std::optional<int64_t> given, const Tensor& out) {
    const int64_t dim = given.value_or(-1);
    const Halves halves(x, dim);
    const Tensor g = widen(grad);
    write_halves(out, dim, at::silu_backward(g * halves.second, halves.first), g * at::silu(halves.first));
}

const char* approximation(int64_t number) {
    TORCH_CHECK(number == 0 || number == 1, "approximate must be 0 (none) or 1 (tanh), it is ", number);
    return number == 0 ? "none" : "tanh";
}

void geglu(const Tensor& self, int64_t dim, int64_t approximate, bool activate_left, const Tensor& out,
           const Tensor& out_gelu) {
    const Halves halves(self, dim);
    const Tensor gelu = at::gelu(activate_left ? halves.first : halves.second, approximation(approximate));
    write(out_gelu, gelu);
    write(out, gelu * (activate_left ? halves.second : halves.first));
}

void geglu_backward(const Tensor& grad, const Tensor& self, const Tensor& gelu, int64_t dim,
                    int64_t approximate, bool activate_left, const Tensor& out) {
    const Halves halves(self, dim);
    const Tensor g = widen(grad), plain = activate_left ? halves.second : halves.first;
    const Tensor slope = at::gelu_backward(g * plain, activate_left ? halves.first : halves.second,
                                           approximation(approximate));
    const Tensor passed = g * widen(gelu);
    activate_left ? write_halves(out, dim, slope, passed) : write_halves(out, dim, passed, slope);
}

void gelu_mul(const Tensor& input, const std::optional<std::string>& approximate, const Tensor& out) {
    const auto form = approximate.value_or("none");
    TORCH_CHECK(form == "none" || form == "tanh", "approximateOptional must be none or tanh, it is '", form,
                "'");
    const Halves halves(input, -1);
    write(out, at::gelu(halves.first, form) * halves.second);
}

void fatrelu_mul(const Tensor& input, const Tensor& threshold, const Tensor& out) {
    const Halves halves(input, -1);
    const Tensor limit = widen(threshold).reshape({});
    write(out, halves.first.masked_fill(halves.first < limit, 0) * halves.second);
}

// SiTU: beta * tanh(gate / beta) * sigmoid(gate) times up, which linear_beta > 0 softly limits.
struct Situ {
    Tensor gate, tanh, sigmoid, activated, up, up_tanh;  // up_tanh undefined: up is not limited

    Situ(const Tensor& x, int64_t dim, double beta, double linear_beta, bool activate_left) {
        TORCH_CHECK(beta != 0, "beta must not be 0");
        const Halves halves(x, dim);
        gate = activate_left ? halves.first : halves.second;
        up = activate_left ? halves.second : halves.first;
        tanh = at::tanh(gate / beta);
        sigmoid = at::sigmoid(gate);
        activated = beta * tanh * sigmoid;
        if (linear_beta <= 0) return;
        up_tanh = at::tanh(up / linear_beta);
        up = linear_beta * up_tanh;
    }
};

void situ_glu(const Tensor& x, int64_t dim, double beta, double linear_beta, bool activate_left,
              const Tensor& out) {
    const Situ situ(x, dim, beta, linear_beta, activate_left);
    write(out, situ.activated * situ.up);
}

void situ_glu_grad(const Tensor& grad, const Tensor& x, int64_t dim, double beta, double linear_beta,
                   bool activate_left, const Tensor& out) {
    const Situ situ(x, dim, beta, linear_beta, activate_left);
    const Tensor g = widen(grad);
    const Tensor gate =
        g * situ.up * situ.sigmoid * ((1 - situ.tanh.square()) + beta * situ.tanh * (1 - situ.sigmoid));
    Tensor up = g * situ.activated;
    if (situ.up_tanh.defined()) up = up * (1 - situ.up_tanh.square());
    activate_left ? write_halves(out, dim, gate, up) : write_halves(out, dim, up, gate);
}

// GPT-OSS's form. The group index (tokens per expert) says how many rows count; CANN leaves the others
// undefined, here they are 0.
void clipped_swiglu(const Tensor& x, const std::optional<Tensor>& group_index, int64_t dim, double alpha,
                    double limit, double bias, bool interleaved, int64_t clamp_mode, const Tensor& out) {
    TORCH_CHECK(clamp_mode == 0 || clamp_mode == 1, "clampMode must be 0 or 1, it is ", clamp_mode);
    TORCH_CHECK(x.dim() > 0 && dim >= -x.dim() && dim < x.dim(), "dim ", dim, " is outside of x ", x.sizes());
    const auto cut = dim < 0 ? dim + x.dim() : dim, size = x.size(cut);
    TORCH_CHECK(size % 2 == 0, "dimension ", dim, " of x ", x.sizes(), " cannot be halved");
    const auto part = [&](int64_t index) {
        return widen(interleaved ? x.slice(cut, index, size, 2) : x.narrow(cut, index * size / 2, size / 2));
    };
    Tensor a = part(0), b = part(1).clamp(-limit, limit);
    Tensor y;
    if (clamp_mode == 0) {
        a = a.clamp_max(limit);
        y = a * at::sigmoid(alpha * a) * (b + bias);
    } else {
        y = at::silu(a).clamp_max(limit) * b;
    }
    if (group_index) {
        const auto rows = c10::multiply_integers(x.sizes().slice(0, cut));
        const auto counted = std::min<int64_t>(group_index->sum().item<int64_t>(), rows);
        const auto shape = y.sizes().vec();
        y = y.reshape({rows, -1});
        y.narrow(0, counted, rows - counted).zero_();
        y = y.reshape(shape);
    }
    write(out, y);
}

const Table table{
    Entry("aclnnGlu", Ge{"GLU", {"dim"}},
          [](const Tensor& self, std::optional<int64_t> dim, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::glu_out(result, self, dim.value_or(-1)); });
          }),
    Entry("aclnnGluBackward",
          [](const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::glu_backward_out(result, grad, self, dim); });
          }),
    Entry("aclnnSwiGlu", Ge{"SwiGlu", {"dim"}}, swiglu),
    Entry("aclnnSwiGluGrad", Ge{"SwiGluGrad", {"dim"}}, swiglu_grad),
    Entry("aclnnSiluMul", [](const Tensor& x, const Tensor& y,
                             const Tensor& out) { write(out, at::silu(widen(x)) * widen(y)); }),
    Entry("aclnnClippedSwiglu",
          [](const Tensor& x, const std::optional<Tensor>& group_index, int64_t dim, double alpha,
             double limit, double bias, bool interleaved, const Tensor& out) {
              clipped_swiglu(x, group_index, dim, alpha, limit, bias, interleaved, 0, out);
          }),
    Entry("aclnnClippedSwigluV2", clipped_swiglu),
    Entry("aclnnGeGlu", [](const Tensor& self, int64_t dim, int64_t approximate, const Tensor& out,
                           const Tensor& out_gelu) { geglu(self, dim, approximate, false, out, out_gelu); }),
    Entry("aclnnGeGluV3", geglu),
    Entry("aclnnGeGluBackward",
          [](const Tensor& grad, const Tensor& self, const Tensor& gelu, int64_t dim, int64_t approximate,
             const Tensor& out) { geglu_backward(grad, self, gelu, dim, approximate, false, out); }),
    Entry("aclnnGeGluV3Backward", geglu_backward),
    Entry("aclnnGeluMul", gelu_mul),
    Entry("aclnnFatreluMul", fatrelu_mul),
    Entry("aclnnSituGlu", situ_glu),
    Entry("aclnnSituGluGrad", situ_glu_grad),
};

}  // namespace
}  // namespace npu::emulator
