// Interpolation of (N, C, spatial...) to another size: nearest, linear and cubic, with the gradients. A scale
// that is zero or negative was not given: the ratio of the sizes counts.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Scale = std::optional<double>;
Scale given(double scale) { return scale > 0 ? Scale(scale) : std::nullopt; }

using Ints = IntArrayRef;

// One row per number of spatial dimensions and per whether corners can be aligned.
template <Tensor (*Function)(const Tensor&, Ints, Scale)>
Entry nearest1(const char* name) {
    return {name, [](const Tensor& self, Ints size, double scale, const Tensor& out) {
                write(out, Function(widen(self), size, given(scale)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Scale, Scale)>
Entry nearest2(const char* name) {
    return {name, [](const Tensor& self, Ints size, double h, double w, const Tensor& out) {
                write(out, Function(widen(self), size, given(h), given(w)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Scale, Scale, Scale)>
Entry nearest3(const char* name) {
    return {name, [](const Tensor& self, Ints size, double d, double h, double w, const Tensor& out) {
                write(out, Function(widen(self), size, given(d), given(h), given(w)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Ints, Scale)>
Entry nearest1_backward(const char* name) {
    return {name, [](const Tensor& grad, Ints out_size, Ints in_size, double scale, const Tensor& out) {
                write(out, Function(widen(grad), out_size, in_size, given(scale)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Ints, Scale, Scale)>
Entry nearest2_backward(const char* name) {
    return {name, [](const Tensor& grad, Ints out_size, Ints in_size, double h, double w, const Tensor& out) {
                write(out, Function(widen(grad), out_size, in_size, given(h), given(w)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Ints, Scale, Scale, Scale)>
Entry nearest3_backward(const char* name) {
    return {name, [](const Tensor& grad, Ints out_size, Ints in_size, double d, double h, double w,
                     const Tensor& out) {
                write(out, Function(widen(grad), out_size, in_size, given(d), given(h), given(w)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, bool, Scale)>
Entry linear1(const char* name) {
    return {name, [](const Tensor& self, Ints size, bool align, double scale, const Tensor& out) {
                write(out, Function(widen(self), size, align, given(scale)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, bool, Scale, Scale)>
Entry linear2(const char* name) {
    return {name, [](const Tensor& self, Ints size, bool align, double h, double w, const Tensor& out) {
                write(out, Function(widen(self), size, align, given(h), given(w)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, bool, Scale, Scale, Scale)>
Entry linear3(const char* name) {
    return {name,
            [](const Tensor& self, Ints size, bool align, double d, double h, double w, const Tensor& out) {
                write(out, Function(widen(self), size, align, given(d), given(h), given(w)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Ints, bool, Scale)>
Entry linear1_backward(const char* name) {
    return {name,
            [](const Tensor& grad, Ints out_size, Ints in_size, bool align, double scale, const Tensor& out) {
                write(out, Function(widen(grad), out_size, in_size, align, given(scale)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Ints, bool, Scale, Scale)>
Entry linear2_backward(const char* name) {
    return {name, [](const Tensor& grad, Ints out_size, Ints in_size, bool align, double h, double w,
                     const Tensor& out) {
                write(out, Function(widen(grad), out_size, in_size, align, given(h), given(w)));
            }};
}
template <Tensor (*Function)(const Tensor&, Ints, Ints, bool, Scale, Scale, Scale)>
Entry linear3_backward(const char* name) {
    return {name, [](const Tensor& grad, Ints out_size, Ints in_size, bool align, double d, double h,
                     double w, const Tensor& out) {
                write(out, Function(widen(grad), out_size, in_size, align, given(d), given(h), given(w)));
            }};
}

const Table table{
    {"aclnnUpsampleNearest1d",
     [](const Tensor& self, Ints size, const Tensor& out) {
         write(out, at::upsample_nearest1d(widen(self), size));
     }},
    {"aclnnUpsampleNearest2d",
     [](const Tensor& self, Ints size, const Tensor& out) {
         write(out, at::upsample_nearest2d(widen(self), size));
     }},
    nearest1<at::upsample_nearest1d>("aclnnUpsampleNearest1dV2"),
    nearest2<at::upsample_nearest2d>("aclnnUpsampleNearest2dV2"),
    nearest3<at::upsample_nearest3d>("aclnnUpsampleNearest3d"),
    nearest1<at::_upsample_nearest_exact1d>("aclnnUpsampleNearestExact1d"),
    nearest2<at::_upsample_nearest_exact2d>("aclnnUpsampleNearestExact2d"),
    nearest3<at::_upsample_nearest_exact3d>("aclnnUpsampleNearestExact3d"),
    nearest1_backward<at::upsample_nearest1d_backward>("aclnnUpsampleNearest1dBackward"),
    nearest2_backward<at::upsample_nearest2d_backward>("aclnnUpsampleNearest2dBackward"),
    nearest3_backward<at::upsample_nearest3d_backward>("aclnnUpsampleNearest3dBackward"),
    nearest1_backward<at::_upsample_nearest_exact1d_backward>("aclnnUpsampleNearestExact1dBackward"),
    nearest2_backward<at::_upsample_nearest_exact2d_backward>("aclnnUpsampleNearestExact2dBackward"),
    nearest3_backward<at::_upsample_nearest_exact3d_backward>("aclnnUpsampleNearestExact3dBackward"),
    linear1<at::upsample_linear1d>("aclnnUpsampleLinear1d"),
    linear2<at::upsample_bilinear2d>("aclnnUpsampleBilinear2d"),
    linear2<at::_upsample_bilinear2d_aa>("aclnnUpsampleBilinear2dAA"),
    linear2<at::upsample_bicubic2d>("aclnnUpsampleBicubic2d"),
    linear2<at::_upsample_bicubic2d_aa>("aclnnUpsampleBicubic2dAA"),
    linear3<at::upsample_trilinear3d>("aclnnUpsampleTrilinear3d"),
    linear1_backward<at::upsample_linear1d_backward>("aclnnUpsampleLinear1dBackward"),
    linear2_backward<at::upsample_bilinear2d_backward>("aclnnUpsampleBilinear2dBackward"),
    linear2_backward<at::upsample_bilinear2d_backward>("aclnnUpsampleBilinear2dBackwardV2"),
    linear2_backward<at::_upsample_bilinear2d_aa_backward>("aclnnUpsampleBilinear2dAABackward"),
    linear2_backward<at::upsample_bicubic2d_backward>("aclnnUpsampleBicubic2dBackward"),
    linear2_backward<at::_upsample_bicubic2d_aa_backward>("aclnnUpsampleBicubic2dAAGrad"),
    linear3_backward<at::upsample_trilinear3d_backward>("aclnnUpsampleTrilinear3dBackward"),
};

}  // namespace
}  // namespace npu::emulator
