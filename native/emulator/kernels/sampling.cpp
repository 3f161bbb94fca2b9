// Sampling of images at given places (grid sampler, affine grids), unfolding into columns and back, shuffled
// channels, and distances between vectors.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

void write_asked(bool asked, Optional out, const Tensor& value, const char* name) {
    if (!asked) return;
    TORCH_CHECK(out, "outputMask asks for ", name, ", but it is null");
    write(*out, value);
}

// interpolation: 0 bilinear, 1 nearest, 2 bicubic; padding: 0 zeros, 1 border, 2 reflection.
template <Tensor (*Function)(const Tensor&, const Tensor&, int64_t, int64_t, bool)>
Entry grid_sampler(const char* name) {
    return {name, [](const Tensor& input, const Tensor& grid, int64_t interpolation, int64_t padding,
                     bool align, const Tensor& out) {
                const auto wide = widen(input);
                write(out, Function(wide, grid.to(wide.scalar_type()), interpolation, padding, align));
            }};
}

template <std::tuple<Tensor, Tensor> (*Function)(const Tensor&, const Tensor&, const Tensor&, int64_t,
                                                 int64_t, bool, std::array<bool, 2>)>
Entry grid_sampler_backward(const char* name) {
    return {name, [](const Tensor& grad, const Tensor& input, const Tensor& grid, int64_t interpolation,
                     int64_t padding, bool align, const BoolList& mask, Optional dx, Optional dgrid) {
                TORCH_CHECK(mask.size() == 2, "outputMask has ", mask.size(), " flags, two are needed");
                const auto wide = widen(input);
                const auto type = wide.scalar_type();
                const auto [gx, ggrid] = Function(grad.to(type), wide, grid.to(type), interpolation, padding,
                                                  align, {mask[0], mask[1]});
                write_asked(mask[0], dx, gx, "inputGrad");
                write_asked(mask[1], dgrid, ggrid, "gridGrad");
            }};
}

const Table table{
    grid_sampler<at::grid_sampler_2d>("aclnnGridSampler2D"),
    grid_sampler<at::grid_sampler_3d>("aclnnGridSampler3D"),
    grid_sampler_backward<at::grid_sampler_2d_backward>("aclnnGridSampler2DBackward"),
    grid_sampler_backward<at::grid_sampler_3d_backward>("aclnnGridSampler3DBackward"),
    {"aclnnAffineGrid",
     [](const Tensor& theta, IntArrayRef size, bool align, const Tensor& out) {
         write(out, at::affine_grid_generator(widen(theta), size, align));
     }},
    {"aclnnIm2col",
     [](const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride,
        const Tensor& out) { write(out, at::im2col(self, kernel, dilation, padding, stride)); }},
    {"aclnnIm2colBackward",
     [](const Tensor& grad, IntArrayRef size, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
        IntArrayRef stride,
        const Tensor& out) { write(out, at::col2im(widen(grad), size, kernel, dilation, padding, stride)); }},
    {"aclnnChannelShuffle", [](const Tensor& self, int64_t groups,
                               const Tensor& out) { write(out, at::channel_shuffle(self, groups)); }},
    {"aclnnCdist", [](const Tensor& x1, const Tensor& x2, double p, int64_t mode,
                      const Tensor& out) { write(out, at::_cdist_forward(widen(x1), widen(x2), p, mode)); }},
    {"aclnnCdistBackward",
     [](const Tensor& grad, const Tensor& x1, const Tensor& x2, const Tensor& cdist, double p,
        const Tensor& out) {
         const auto a = widen(x1).contiguous(), b = widen(x2).contiguous();
         // The largest coordinate's distance is compared with the whole: a rounded one would match none.
         const auto distance =
             is_narrow(cdist.scalar_type()) ? at::_cdist_forward(a, b, p, 2) : cdist.contiguous();
         write(out, at::_cdist_backward(widen(grad).contiguous(), a, b, p, distance));
     }},
    {"aclnnPdist", [](const Tensor& self, double p,
                      const Tensor& out) { write(out, at::_pdist_forward(widen(self).contiguous(), p)); }},
};

}  // namespace
}  // namespace npu::emulator
