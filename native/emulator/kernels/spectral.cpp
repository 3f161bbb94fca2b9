// Fourier transforms. torch_npu works the others out with matrix products.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

// The last dimension of `out` holds real and imaginary parts.
void rfft(const Tensor& self, int64_t n, int64_t dim, int64_t norm, const Tensor& out) {
    static constexpr const char* names[] = {"backward", "forward", "ortho"};
    TORCH_CHECK(norm >= 1 && norm <= 3, "norm is ", norm,
                ", known are 1 (backward), 2 (forward) and 3 (ortho)");
    write(out, at::view_as_real(at::fft_rfft(widen(self), n, dim, names[norm - 1])));
}

void stft(const Tensor& self, const std::optional<Tensor>& window, const Tensor& out, int64_t n_fft,
          int64_t hop, int64_t win_length, bool normalized, bool onesided, bool return_complex) {
    const auto result = at::stft(self, n_fft, hop, win_length, window, normalized, onesided, true);
    write(out, return_complex ? result : at::view_as_real(result));
}

const Table table{
    {"aclRfft1D", rfft},
    {"aclStft", stft},
};

}  // namespace
}  // namespace npu::emulator
