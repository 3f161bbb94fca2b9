#include "ge/engine/static_run.h"

#include "ge/engine/control_flow.h"
#include "ge/engine/region.h"
#include "ge/engine/split.h"

namespace npu::ge {
namespace {

using Command = std::function<void()>;

std::pair<const std::byte*, const std::byte*> range(const at::Tensor& tensor) {
    const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
    return {begin, begin + tensor.nbytes()};
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
    const auto [a0, a1] = range(a);
    const auto [b0, b1] = range(b);
    return a0 < b1 && b0 < a1;
}

/// What a command throws says which node it was.
Command named(const Step& step, Command command) {
    return [&step, command = std::move(command)] {
        try {
            command();
        } catch (const std::exception& error) {
            fail_at(step, error.what());
        }
    };
}

class Binder {
  public:
    Binder(const Program& program, const std::vector<at::Tensor>& inputs,
           const std::vector<at::Tensor>& outputs, std::byte* workspace)
        : program_(program),
          inputs_(inputs),
          outputs_(outputs),
          workspace_(workspace),
          roots_(program.values.size()) {}

    std::vector<Stretch> run() {
        find_staged();
        for (const Step& step : program_.steps) bind(step);
        write_results();
        return std::move(stretches_);
    }

  private:
    std::vector<Command>& commands() { return stretches_.back().commands; }

    /// Results whose buffer is also an input's, or a piece with gaps of which there are views, which count on
    /// row-major memory: computed elsewhere first.
    void find_staged() {
        staged_.resize(outputs_.size());
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            for (const at::Tensor& input : inputs_) staged_[i] = staged_[i] || overlap(outputs_[i], input);
            if (!outputs_[i].is_contiguous()) staged_[i] = staged_[i] || has_views(program_.results[i]);
        }
    }

    bool has_views(int result) const {
        const int root = program_.values[result].root;
        for (std::size_t i = 0; i < program_.values.size(); ++i)
            if (program_.values[i].root == root && static_cast<int>(i) != root) return true;
        return false;
    }

    /// The memory of a value that owns it.
    const at::Tensor& root(int number) {
        at::Tensor& tensor = roots_[number];
        if (tensor.defined()) return tensor;
        const Value& value = program_.values[number];
        if (value.constant.defined()) {
            tensor = value.constant;
        } else if (value.place == Place::input) {
            tensor = inputs_.at(value.index);
        } else if (const int result = program_.result_of[number]; result >= 0) {
            // The result may be these bits under another type.
            const auto type = scalar_type(value.type.dtype);
            tensor = staged_[result] ? empty(value.type) : outputs_[result].view(type).view(value.type.dims);
        } else {
            tensor = at::for_blob(workspace_ + program_.offsets[number].value(), value.type.dims)
                         .options(at::TensorOptions().dtype(scalar_type(value.type.dtype)))
                         .make_tensor();
        }
        return tensor;
    }

    at::Tensor tensor(int number) {
        if (number < 0) return {};
        const Value& value = program_.values[number];
        if (value.root == number) return root(number);
        at::Tensor memory = root(value.root);
        const auto type = scalar_type(value.type.dtype);
        if (memory.scalar_type() != type) memory = memory.view(type);  // Bitcast, of one size
        return memory.as_strided(value.type.dims, value.strides, memory.storage_offset() + value.offset);
    }

    std::vector<at::Tensor> tensors(const std::vector<int>& numbers) {
        std::vector<at::Tensor> found;
        for (const int number : numbers) found.push_back(tensor(number));
        return found;
    }

    void bind(const Step& step) {
        switch (step.kind) {
            case Kind::view:
                return;  // only addresses
            case Kind::collective:
                return bind_collective(step);
            case Kind::branch:
            case Kind::loop:
                commands().push_back(
                    named(step, bind_control_flow(step, tensors(step.inputs), tensors(step.outputs))));
                return;
            case Kind::fused:
                commands().push_back(
                    named(step, bind_region(step, [this](int number) { return tensor(number); })));
                return;
            case Kind::split:
                commands().push_back(bind_split(step, tensors(step.inputs), tensors(step.outputs)));
                return;
            default:
                return bind_row(step);
        }
    }

    void bind_row(const Step& step) {
        std::vector<emulator::TensorArg> targets;
        for (const at::Tensor& output : tensors(step.outputs)) targets.push_back({output});
        try {
            commands().push_back(
                named(step, [call = aclop::RowCall(*step.kernel, tensors(step.inputs), step.row_attributes,
                                                   targets, step.spans)] { call.run(); }));
        } catch (const aclop::Refusal& refusal) {
            fail_at(step, refusal.what());
        }
    }

    void bind_collective(const Step& step) {
        Exchange exchange{&step, tensors(step.inputs), tensors(step.outputs)};
        for (at::Tensor& input : exchange.inputs) {
            if (!input.defined() || input.is_contiguous()) continue;
            const at::Tensor dense = at::empty(input.sizes(), input.options());
            commands().push_back([dense, input] { dense.copy_(input); });
            input = dense;
        }
        stretches_.back().exchange = std::move(exchange);
        stretches_.emplace_back();
    }

    /// Copies what was not computed in place. Sources in the memory of inputs are read before any input is
    /// written over.
    void write_results() {
        std::vector<std::pair<std::size_t, at::Tensor>> late;
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const at::Tensor source = tensor(program_.results[i]);
            const at::Tensor target = outputs_[i];
            if (source.const_data_ptr() == target.const_data_ptr() &&
                (source.is_contiguous() ? target.is_contiguous() : source.strides() == target.strides()))
                continue;
            if (!staged_[i]) {
                commands().push_back([target, source] { target.copy_(source); });
            } else {
                late.emplace_back(i, source);
            }
        }
        for (auto& [i, source] : late) {
            const Value& value = program_.values[program_.results[i]];
            if (program_.values[value.root].place == Place::input) {
                const at::Tensor copy = at::empty(source.sizes(), source.options());
                commands().push_back([copy, source] { copy.copy_(source); });
                source = copy;
            }
        }
        for (const auto& [i, source] : late)
            commands().push_back([target = outputs_[i], source = source] { target.copy_(source); });
    }

    const Program& program_;
    const std::vector<at::Tensor>& inputs_;
    const std::vector<at::Tensor>& outputs_;
    std::byte* workspace_;
    std::vector<at::Tensor> roots_;
    std::vector<bool> staged_;
    std::vector<Stretch> stretches_{1};
};

}  // namespace

std::vector<Stretch> bind(const Program& program, const std::vector<at::Tensor>& inputs,
                          const std::vector<at::Tensor>& outputs, std::byte* workspace) {
    return Binder(program, inputs, outputs, workspace).run();
}

}  // namespace npu::ge
