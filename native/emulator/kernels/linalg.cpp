// Factorisations, determinants, solutions of linear systems (LAPACK, in float for half and bfloat16).
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

// input = u diag(sigma) v^T: v is the transpose, not the conjugate transpose, of ATen's Vh.
void svd(const Tensor& input, bool full_matrices, bool compute_uv, const Tensor& sigma, const Tensor& u,
         const Tensor& v) {
    if (!compute_uv) return write(sigma, at::linalg_svdvals(widen(input)));
    auto [left, values, right] = at::linalg_svd(widen(input), full_matrices);
    write(sigma, values);
    write(u, left);
    write(v, right.mT());
}

void qr(const Tensor& self, const char* mode, const Tensor& q, const Tensor& r) {
    auto [orthogonal, upper] = at::linalg_qr(widen(self), mode);
    if (std::string_view(mode) != "r") write(q, orthogonal);
    write(r, upper);
}

void linalg_qr(const Tensor& self, int64_t mode, const Tensor& q, const Tensor& r) {
    static constexpr const char* names[] = {"reduced", "complete", "r"};
    TORCH_CHECK(mode >= 0 && mode <= 2, "mode is ", mode, ", known are 0 (reduced), 1 (complete) and 2 (r)");
    qr(self, names[mode], q, r);
}

// a x = self, or a^T x = self; `coefficients` receives a.
void triangular_solve(const Tensor& self, const Tensor& a, bool upper, bool transpose, bool unitriangular,
                      const Tensor& x, const Tensor& coefficients) {
    const auto matrix = transpose ? a.mT() : a;
    write(x, at::linalg_solve_triangular(matrix, self, transpose ? !upper : upper, true, unitriangular));
    write(coefficients, a.expand(coefficients.sizes()));
}

const Table table{
    {"aclnnSvd", svd},
    {"aclnnQr", [](const Tensor& self, bool some, const Tensor& q,
                   const Tensor& r) { qr(self, some ? "reduced" : "complete", q, r); }},
    {"aclnnLinalgQr", linalg_qr},
    {"aclnnInverse", [](const Tensor& self, const Tensor& out) { write(out, at::linalg_inv(widen(self))); }},
    {"aclnnLogdet", [](const Tensor& self, const Tensor& out) { write(out, at::logdet(widen(self))); }},
    {"aclnnSlogdet",
     [](const Tensor& self, const Tensor& sign, const Tensor& log) {
         auto [s, value] = at::linalg_slogdet(widen(self));
         write(sign, s);
         write(log, value);
     }},
    {"aclnnTriangularSolve", triangular_solve},
    {"aclnnLinalgCholesky", [](const Tensor& self, bool upper,
                               const Tensor& out) { write(out, at::linalg_cholesky(widen(self), upper)); }},
    {"aclnnLinalgCross", [](const Tensor& self, const Tensor& other, int64_t dim,
                            const Tensor& out) { write(out, at::linalg_cross(self, other, dim)); }},
    {"aclnnGer",
     [](const Tensor& self, const Tensor& vec2, const Tensor& out) { write(out, at::outer(self, vec2)); }},
};

}  // namespace
}  // namespace npu::emulator
