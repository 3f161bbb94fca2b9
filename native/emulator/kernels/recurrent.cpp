// One step of an LSTM on gates that are computed already. gates (batch, 4 * hidden): input, forget, cell,
// output. storage keeps the gates after their activation for the gradient.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

void lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx, Optional input_bias,
               Optional hidden_bias, const Tensor& hy, const Tensor& cy, const Tensor& storage) {
    auto gates = widen(input_gates) + widen(hidden_gates);
    if (input_bias) gates = gates + widen(*input_bias);
    if (hidden_bias) gates = gates + widen(*hidden_bias);
    const auto part = gates.chunk(4, 1);
    const auto in = at::sigmoid(part[0]), forget = at::sigmoid(part[1]), cell = at::tanh(part[2]),
               out = at::sigmoid(part[3]);
    const auto state = forget * widen(cx) + in * cell;
    write(hy, out * at::tanh(state));
    write(cy, state);
    write(storage, at::cat({in, forget, cell, out}, 1));
}

void lstm_cell_backward(Optional grad_hy, Optional grad_cy, const Tensor& cx, const Tensor& cy,
                        const Tensor& storage, bool has_bias, const Tensor& grad_gates, const Tensor& grad_cx,
                        Optional grad_bias) {
    const auto part = widen(storage).chunk(4, 1);
    const auto &in = part[0], &forget = part[1], &cell = part[2], &out = part[3];
    const auto curve = at::tanh(widen(cy));
    const auto up = grad_hy ? widen(*grad_hy) : at::zeros_like(curve);
    auto through = up * out * (1 - curve.square());
    if (grad_cy) through = through + widen(*grad_cy);
    const auto gates = at::cat({through * cell * in * (1 - in), through * widen(cx) * forget * (1 - forget),
                                through * in * (1 - cell.square()), up * curve * out * (1 - out)},
                               1);
    write(grad_gates, gates);
    write(grad_cx, through * forget);
    if (!has_bias) return;
    TORCH_CHECK(grad_bias, "hasBias is true, but gradBiasOut is null");
    write(*grad_bias, gates.sum(0));
}

const Table table{
    {"aclnnThnnFusedLstmCell",
     [](const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx, Optional input_bias,
        Optional hidden_bias, const Tensor& hy, const Tensor& cy, const Tensor& storage) {
         lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias, hy, cy, storage);
     }},
    {"aclnnThnnFusedLstmCellBackward",
     [](Optional grad_hy, Optional grad_cy, const Tensor& cx, const Tensor& cy, const Tensor& storage,
        bool has_bias, const Tensor& grad_gates, const Tensor& grad_cx, Optional grad_bias) {
         lstm_cell_backward(grad_hy, grad_cy, cx, cy, storage, has_bias, grad_gates, grad_cx, grad_bias);
     }},
};

}  // namespace
}  // namespace npu::emulator
