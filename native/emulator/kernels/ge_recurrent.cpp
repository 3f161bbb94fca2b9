// GE's recurrent layers over a sequence (time, batch, features), one direction and one layer a call, as
// torch_npu's aclop functions send them. Attributes with `=` take the values behind it only
// (../aclop/attribute_rule.h).
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

// torch_npu passes a scalar of 0 for what the sequence has none of.
void refuse_lengths(Optional lengths) {
    TORCH_CHECK(!lengths || lengths->dim() == 0,
                "sequences of different lengths (seq_length) are not implemented");
}

// Where the gates stand in the weights' columns: "ifjo" is PyTorch's order; j (also written c) is the cell
// gate.
struct GateOrder {
    std::array<std::size_t, 4> place;  // of i, f, j, o
    explicit GateOrder(const std::string& given) {
        std::string order = given.empty() ? "ijfo" : given;
        std::ranges::replace(order, 'c', 'j');
        const std::string gates = "ifjo";
        for (std::size_t gate = 0; gate < 4; ++gate) {
            place[gate] = order.find(gates[gate]);
            TORCH_CHECK(order.size() == 4 && place[gate] != std::string::npos, "gate_order \"", given,
                        "\" is no order of i, f, j and o");
        }
    }
    Tensor join(const std::array<Tensor, 4>& gates) const {
        std::vector<Tensor> ordered(4);
        for (std::size_t gate = 0; gate < 4; ++gate) ordered[place[gate]] = gates[gate];
        return at::cat(ordered, -1);
    }
};

Tensor start(Optional initial, const Tensor& x, int64_t hidden) {
    return initial ? widen(*initial).reshape({x.size(1), hidden})
                   : at::zeros({x.size(1), hidden}, x.options());
}

struct LstmOutputs {
    const Tensor &y, &h, &c, &i, &j, &f, &o, &tanhc;
};

void lstm(const Tensor& x, const Tensor& input_weight, const Tensor& hidden_weight, Optional bias,
          Optional init_h, Optional init_c, bool reversed, const std::string& gate_order,
          const LstmOutputs& out) {
    const GateOrder order(gate_order);
    const auto wide = widen(x);
    const auto recurrent = widen(hidden_weight);
    const int64_t steps = x.size(0), hidden = hidden_weight.size(0);
    auto from_input = at::matmul(wide, widen(input_weight));
    if (bias) from_input = from_input + widen(*bias);
    auto h = start(init_h, wide, hidden), c = start(init_c, wide, hidden);
    for (int64_t step = 0; step < steps; ++step) {
        const int64_t t = reversed ? steps - 1 - step : step;
        const auto gates = (from_input[t] + at::mm(h, recurrent)).chunk(4, 1);
        const auto i = at::sigmoid(gates[order.place[0]]), f = at::sigmoid(gates[order.place[1]]),
                   j = at::tanh(gates[order.place[2]]), o = at::sigmoid(gates[order.place[3]]);
        c = f * c + i * j;
        const auto curve = at::tanh(c);
        h = o * curve;
        const std::pair<const Tensor*, Tensor> results[] = {{&out.y, h}, {&out.h, h},        {&out.c, c},
                                                            {&out.i, i}, {&out.j, j},        {&out.f, f},
                                                            {&out.o, o}, {&out.tanhc, curve}};
        for (const auto& [target, value] : results) write((*target)[t], value);
    }
}

struct LstmSaved {
    const Tensor &init_h, &init_c, &h, &c, &i, &j, &f, &o, &tanhc;
};
struct LstmGradients {
    Tensor input_weight, hidden_weight, bias, x, h, c;
};

// Back through time. dh and dc are the gradients of the last step's states, dy of every step's output.
LstmGradients lstm_grad(const Tensor& x, const Tensor& input_weight, const Tensor& hidden_weight,
                        const LstmSaved& saved, const Tensor& dy, const Tensor& dh, const Tensor& dc,
                        bool reversed, const std::string& gate_order) {
    const GateOrder order(gate_order);
    const auto wide = widen(x);
    const int64_t steps = x.size(0), batch = x.size(1), hidden = hidden_weight.size(0);
    const auto first_h = widen(saved.init_h).reshape({batch, hidden});
    const auto first_c = widen(saved.init_c).reshape({batch, hidden});
    auto grad_h = widen(dh).reshape({batch, hidden}), grad_c = widen(dc).reshape({batch, hidden});
    std::vector<Tensor> gate_grads(steps), previous(steps);
    for (int64_t step = steps - 1; step >= 0; --step) {
        const int64_t t = reversed ? steps - 1 - step : step;
        const int64_t before = reversed ? t + 1 : t - 1;
        previous[t] = step == 0 ? first_h : widen(saved.h[before]);
        const auto previous_c = step == 0 ? first_c : widen(saved.c[before]);
        const auto i = widen(saved.i[t]), j = widen(saved.j[t]), f = widen(saved.f[t]), o = widen(saved.o[t]),
                   curve = widen(saved.tanhc[t]);
        grad_h = grad_h + widen(dy[t]);
        grad_c = grad_c + grad_h * o * (1 - curve.square());
        gate_grads[t] = order.join({grad_c * j * i * (1 - i), grad_c * previous_c * f * (1 - f),
                                    grad_c * i * (1 - j.square()), grad_h * curve * o * (1 - o)});
        grad_h = at::mm(gate_grads[t], widen(hidden_weight).t());
        grad_c = grad_c * f;
    }
    const auto gates = at::stack(gate_grads).flatten(0, 1);
    return {at::mm(wide.flatten(0, 1).t(), gates),
            at::mm(at::stack(previous).flatten(0, 1).t(), gates),
            gates.sum(0),
            at::mm(gates, widen(input_weight).t()).reshape(x.sizes()),
            grad_h,
            grad_c};
}

bool reversed(const std::string& direction) {
    TORCH_CHECK(direction.empty() || direction == "UNIDIRECTIONAL" || direction == "REDIRECTIONAL",
                "direction \"", direction, "\" is not implemented");
    return direction == "REDIRECTIONAL";
}

// The inputs' and the states' weights in one matrix, inputs first.
void dynamic_rnn(const Tensor& x, const Tensor& w, Optional b, Optional lengths, Optional init_h,
                 Optional init_c, const std::string& direction, const std::string& gate_order,
                 const Tensor& y, const Tensor& h, const Tensor& c, const Tensor& i, const Tensor& j,
                 const Tensor& f, const Tensor& o, const Tensor& tanhc) {
    refuse_lengths(lengths);
    const int64_t features = x.size(2);
    lstm(x, w.narrow(0, 0, features), w.narrow(0, features, w.size(0) - features), b, init_h, init_c,
         reversed(direction), gate_order, {y, h, c, i, j, f, o, tanhc});
}

void dynamic_rnn_grad(const Tensor& x, const Tensor& w, const Tensor&, const Tensor&, const Tensor& init_h,
                      const Tensor& init_c, const Tensor& h, const Tensor& c, const Tensor& dy,
                      const Tensor& dh, const Tensor& dc, const Tensor& i, const Tensor& j, const Tensor& f,
                      const Tensor& o, const Tensor& tanhc, Optional lengths, Optional, Optional, Optional,
                      Optional, const std::string& direction, const std::string& gate_order, const Tensor& dw,
                      const Tensor& db, const Tensor& dx, const Tensor& dh_prev, const Tensor& dc_prev) {
    refuse_lengths(lengths);
    const int64_t features = x.size(2);
    const auto grads =
        lstm_grad(x, w.narrow(0, 0, features), w.narrow(0, features, w.size(0) - features),
                  {init_h, init_c, h, c, i, j, f, o, tanhc}, dy, dh, dc, reversed(direction), gate_order);
    write(dw, at::cat({grads.input_weight, grads.hidden_weight}));
    write(db, grads.bias);
    write(dx, grads.x);
    write(dh_prev, grads.h.reshape(dh_prev.sizes()));
    write(dc_prev, grads.c.reshape(dc_prev.sizes()));
}

void dynamic_rnn_v2(const Tensor& x, const Tensor& input_weight, const Tensor& hidden_weight, Optional b,
                    Optional lengths, Optional init_h, Optional init_c, const std::string& direction,
                    const std::string& gate_order, const Tensor& y, const Tensor& h, const Tensor& c,
                    const Tensor& i, const Tensor& j, const Tensor& f, const Tensor& o, const Tensor& tanhc) {
    refuse_lengths(lengths);
    lstm(x, input_weight, hidden_weight, b, init_h, init_c, reversed(direction), gate_order,
         {y, h, c, i, j, f, o, tanhc});
}

// A single step comes without the time dimension in some operands.
Tensor sequence(const Tensor& tensor) { return tensor.dim() == 2 ? tensor.unsqueeze(0) : tensor; }

void dynamic_rnn_v2_grad(const Tensor& x, const Tensor& input_weight, const Tensor& hidden_weight,
                         const Tensor&, const Tensor& init_h, const Tensor& init_c, const Tensor& h,
                         const Tensor& c, const Tensor& dy, const Tensor& dh, const Tensor& dc,
                         const Tensor& i, const Tensor& j, const Tensor& f, const Tensor& o,
                         const Tensor& tanhc, Optional lengths, Optional, Optional, Optional, Optional,
                         const std::string& direction, const std::string& gate_order, const Tensor& dw_x,
                         const Tensor& dw_h, const Tensor& db, const Tensor& dx, const Tensor& dh_prev,
                         const Tensor& dc_prev) {
    refuse_lengths(lengths);
    const auto grads = lstm_grad(sequence(x), input_weight, hidden_weight,
                                 {init_h, init_c, sequence(h), sequence(c), sequence(i), sequence(j),
                                  sequence(f), sequence(o), sequence(tanhc)},
                                 sequence(dy), dh, dc, reversed(direction), gate_order);
    write(dw_x, grads.input_weight);
    write(dw_h, grads.hidden_weight);
    write(db, grads.bias);
    write(dx, grads.x.reshape(dx.sizes()));
    write(dh_prev, grads.h.reshape(dh_prev.sizes()));
    write(dc_prev, grads.c.reshape(dc_prev.sizes()));
}

// The weights' columns: reset, update, new ("rzh"). hidden_new is the new gate's share of the state, before
// reset.
void gru(const Tensor& x, const Tensor& input_weight, const Tensor& hidden_weight, Optional input_bias,
         Optional hidden_bias, Optional lengths, Optional init_h, const Tensor& y, const Tensor& out_h,
         const Tensor& update, const Tensor& reset, const Tensor& fresh, const Tensor& hidden_new) {
    refuse_lengths(lengths);
    const auto wide = widen(x);
    auto from_input = at::matmul(wide, widen(input_weight));
    if (input_bias) from_input = from_input + widen(*input_bias);
    auto h = start(init_h, wide, hidden_weight.size(0));
    for (int64_t t = 0; t < x.size(0); ++t) {
        auto from_hidden = at::mm(h, widen(hidden_weight));
        if (hidden_bias) from_hidden = from_hidden + widen(*hidden_bias);
        const auto in = from_input[t].chunk(3, 1), state = from_hidden.chunk(3, 1);
        const auto r = at::sigmoid(in[0] + state[0]), z = at::sigmoid(in[1] + state[1]);
        const auto n = at::tanh(in[2] + r * state[2]);
        h = (1 - z) * n + z * h;
        const std::pair<const Tensor*, Tensor> results[] = {
            {&y, h}, {&out_h, h}, {&update, z}, {&reset, r}, {&fresh, n}, {&hidden_new, state[2]}};
        for (const auto& [target, value] : results) write((*target)[t], value);
    }
}

void gru_grad(const Tensor& x, const Tensor& input_weight, const Tensor& hidden_weight, const Tensor&,
              const Tensor& init_h, const Tensor& h, const Tensor& dy, const Tensor& dh, const Tensor& update,
              const Tensor& reset, const Tensor& fresh, const Tensor& hidden_new, Optional lengths, Optional,
              const Tensor& dw_input, const Tensor& dw_hidden, const Tensor& db_input,
              const Tensor& db_hidden, const Tensor& dx, const Tensor& dh_prev) {
    refuse_lengths(lengths);
    const int64_t steps = x.size(0), batch = x.size(1), hidden = hidden_weight.size(0);
    auto grad = widen(dh).reshape({batch, hidden});
    std::vector<Tensor> input_grads(steps), hidden_grads(steps), previous(steps);
    for (int64_t t = steps - 1; t >= 0; --t) {
        previous[t] = t == 0 ? widen(init_h).reshape({batch, hidden}) : widen(h[t - 1]);
        const auto z = widen(update[t]), r = widen(reset[t]), n = widen(fresh[t]),
                   share = widen(hidden_new[t]);
        grad = grad + widen(dy[t]);
        const auto to_new = grad * (1 - z) * (1 - n.square());
        const auto to_update = grad * (previous[t] - n) * z * (1 - z);
        const auto to_reset = to_new * share * r * (1 - r);
        input_grads[t] = at::cat({to_reset, to_update, to_new}, 1);
        hidden_grads[t] = at::cat({to_reset, to_update, to_new * r}, 1);
        grad = grad * z + at::mm(hidden_grads[t], widen(hidden_weight).t());
    }
    const auto by_input = at::stack(input_grads).flatten(0, 1),
               by_hidden = at::stack(hidden_grads).flatten(0, 1);
    write(dw_input, at::mm(widen(x).flatten(0, 1).t(), by_input));
    write(dw_hidden, at::mm(at::stack(previous).flatten(0, 1).t(), by_hidden));
    write(db_input, by_input.sum(0));
    write(db_hidden, by_hidden.sum(0));
    write(dx, at::mm(by_input, widen(input_weight).t()).reshape(x.sizes()));
    write(dh_prev, grad.reshape(dh_prev.sizes()));
}

const Table table{
    {Ge{"DynamicRNN",
        {"direction", "gate_order", "cell_type?=LSTM", "cell_depth?=1", "use_peephole?=false", "keep_prob?=1",
         "cell_clip?=-1", "num_proj?=0", "time_major?=true", "activation?=tanh", "forget_bias?=0",
         "is_training?=true|false"}},
     dynamic_rnn},
    // torch_npu's "LSTM" becomes a bool on its way here (a const char* where a std::string is meant).
    {Ge{"DynamicRNNGrad",
        {"direction", "gate_order", "cell_type?=LSTM|true", "cell_depth?=0|1", "use_peephole?=false",
         "keep_prob?=-1|1", "cell_clip?=-1", "num_proj?=0", "time_major?=true", "forget_bias?=0"}},
     dynamic_rnn_grad},
    {Ge{"DynamicRNNV2",
        {"direction", "gate_order", "cell_type?=LSTM", "cell_depth?=1", "use_peephole?=false", "keep_prob?=1",
         "cell_clip?=-1", "num_proj?=0", "time_major?=true", "activation?=tanh",
         "recurrent_activation?=sigmoid", "forget_bias?=0", "stateful?=false", "merge_mode?=concat",
         "is_training?=true|false"}},
     dynamic_rnn_v2},
    {Ge{"DynamicRNNV2Grad",
        {"direction", "gate_order", "cell_type?=LSTM", "cell_depth?=1", "use_peephole?=false", "keep_prob?=1",
         "cell_clip?=-1", "num_proj?=0", "time_major?=true", "activation?=tanh",
         "recurrent_activation?=sigmoid", "stateful?=false", "merge_mode?=concat"}},
     dynamic_rnn_v2_grad},
    {Ge{"DynamicGRUV2",
        {"direction?=UNIDIRECTIONAL", "gate_order=rzh", "cell_depth?=1", "keep_prob?=1", "cell_clip?=-1",
         "num_proj?=0", "time_major?=true", "activation?=tanh", "reset_after?=true",
         "is_training?=true|false"}},
     gru},
    {Ge{"DynamicGRUV2Grad",
        {"direction?=UNIDIRECTIONAL", "gate_order=rzh", "cell_depth?=0|1", "keep_prob?=-1|1", "cell_clip?=-1",
         "num_proj?=0", "time_major?=true", "bias_type?=no_bias", "reset_after?=true"}},
     gru_grad},
};

}  // namespace
}  // namespace npu::emulator
