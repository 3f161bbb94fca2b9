// Padding by reflection and by replication, with the gradients. padding is (before, after) of the last
// dimension, then of the one before it. Circular padding is made of copies by torch itself.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

template <Tensor (*Function)(const Tensor&, IntArrayRef)>
Entry pad(const char* name) {
    return {name, [](const Tensor& self, IntArrayRef padding, const Tensor& out) {
                write(out, Function(self, padding));
            }};
}

template <Tensor (*Function)(const Tensor&, const Tensor&, IntArrayRef)>
Entry pad_backward(const char* name) {
    return {name, [](const Tensor& grad, const Tensor& self, IntArrayRef padding, const Tensor& out) {
                write(out, Function(widen(grad), widen(self), padding));
            }};
}

const Table table{
    pad<at::reflection_pad1d>("aclnnReflectionPad1d"),
    pad<at::reflection_pad2d>("aclnnReflectionPad2d"),
    pad<at::reflection_pad3d>("aclnnReflectionPad3d"),
    pad<at::replication_pad1d>("aclnnReplicationPad1d"),
    pad<at::replication_pad2d>("aclnnReplicationPad2d"),
    pad<at::replication_pad3d>("aclnnReplicationPad3d"),
    pad_backward<at::reflection_pad1d_backward>("aclnnReflectionPad1dBackward"),
    pad_backward<at::reflection_pad2d_backward>("aclnnReflectionPad2dBackward"),
    pad_backward<at::reflection_pad3d_backward>("aclnnReflectionPad3dBackward"),
    pad_backward<at::replication_pad1d_backward>("aclnnReplicationPad1dBackward"),
    pad_backward<at::replication_pad2d_backward>("aclnnReplicationPad2dBackward"),
    pad_backward<at::replication_pad3d_backward>("aclnnReplicationPad3dBackward"),
};

}  // namespace
}  // namespace npu::emulator
