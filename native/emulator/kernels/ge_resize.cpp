// GE's interpolation of (N, C, H, W). A scale of 0 was not given: the ratio of the sizes counts.
#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Flag = std::optional<bool>;
using Scales = const std::vector<double>&;

double scale(Scales scales, std::size_t dim) { return scales.size() == 2 ? scales[dim] : 0; }

// torch has corners aligned, or pixels by their centres; TensorFlow's first form is neither.
bool aligned(Flag corners, Flag centers) {
    TORCH_CHECK(corners.value_or(false) != centers.value_or(false),
                "exactly one of align_corners and half_pixel_centers must be true, TensorFlow's first form "
                "(neither) is not supported");
    return corners.value_or(false);
}
void check_corners(Flag corners) {
    TORCH_CHECK(!corners.value_or(false),
                "align_corners is true: the nearest neighbour is only supported "
                "without");
}

const Table table{
    {Ge{"ResizeBilinearV2", {"align_corners", "half_pixel_centers", "dtype", "scales"}},
     [](const Tensor& x, IntArrayRef size, Flag corners, Flag centers, std::optional<ScalarType>,
        Scales scales, const Tensor& y) {
         call_aclnn("aclnnUpsampleBilinear2d", x, size, aligned(corners, centers), scale(scales, 0),
                    scale(scales, 1), y);
     }},
    {Ge{"ResizeBilinearV2Grad", {"align_corners", "half_pixel_centers", "scales"}},
     [](const Tensor& grads, const Tensor& image, Flag corners, Flag centers, Scales scales,
        const Tensor& y) {
         call_aclnn("aclnnUpsampleBilinear2dBackward", grads, grads.sizes().slice(2), image.sizes(),
                    aligned(corners, centers), scale(scales, 0), scale(scales, 1), y);
     }},
    {Ge{"ResizeNearestNeighborV2", {"align_corners", "half_pixel_centers", "scales"}},
     [](const Tensor& x, IntArrayRef size, Flag corners, Flag centers, Scales scales, const Tensor& y) {
         check_corners(corners);
         call_aclnn(centers.value_or(false) ? "aclnnUpsampleNearestExact2d" : "aclnnUpsampleNearest2dV2", x,
                    size, scale(scales, 0), scale(scales, 1), y);
     }},
    // size: height and width of the forward's input.
    {Ge{"ResizeNearestNeighborV2Grad", {"align_corners", "half_pixel_centers", "scales"}},
     [](const Tensor& grads, IntArrayRef size, Flag corners, Flag centers, Scales scales, const Tensor& y) {
         check_corners(corners);
         TORCH_CHECK(size.size() == 2 && grads.dim() == 4, "size is ", size, " and the gradient has shape ",
                     grads.sizes(), ": two and four dimensions are needed");
         const std::vector<int64_t> input{grads.size(0), grads.size(1), size[0], size[1]};
         call_aclnn(centers.value_or(false) ? "aclnnUpsampleNearestExact2dBackward"
                                            : "aclnnUpsampleNearest2dBackward",
                    grads, grads.sizes().slice(2), IntArrayRef(input), scale(scales, 0), scale(scales, 1), y);
     }},
};

}  // namespace
}  // namespace npu::emulator
