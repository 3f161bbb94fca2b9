#include "ge/engine/dynamic_run.h"

#include "ge/engine/control_flow.h"
#include "ge/engine/fold.h"
#include "ge/engine/views.h"

namespace npu::ge {
namespace {

/// The shape that a kernel found for one output.
struct FoundShape final : emulator::ShapeSink {
    std::optional<std::vector<int64_t>> sizes;
    void set_view_shape(at::IntArrayRef shape) override { sizes = shape.vec(); }
};

TensorType type_of(const Program& program, int number, const at::Tensor& tensor) {
    return {program.values[number].type.dtype, tensor.sizes().vec()};
}

/// Copies of the arguments that the body writes to: it takes them by value.
std::vector<at::Tensor> own_written(const Program& body, std::vector<at::Tensor> arguments) {
    const std::vector<bool> written = written_arguments(body);
    for (std::size_t i = 0; i < arguments.size(); ++i)
        if (written[i]) arguments[i] = arguments[i].clone();
    return arguments;
}

}  // namespace

Interpreter::Interpreter(const Program& program, const std::vector<at::Tensor>& inputs)
    : program_(program), values_(program.values.size()) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const Value& value = program.values[i];
        if (value.constant.defined()) values_[i] = value.constant;
    }
    for (std::size_t i = 0; i < program.inputs.size(); ++i) values_[program.inputs[i]] = inputs.at(i);
}

std::vector<at::Tensor> Interpreter::inputs(const Step& step) const {
    std::vector<at::Tensor> tensors;
    for (const int input : step.inputs) tensors.push_back(input < 0 ? at::Tensor() : values_[input]);
    return tensors;
}

std::vector<graph::Inferred> Interpreter::infer(const Step& step) const {
    std::vector<Known> known;
    for (const int input : step.inputs) {
        if (input < 0) {
            known.emplace_back();
        } else {
            known.push_back({type_of(program_, input, values_[input]), values_[input]});
        }
    }
    return ge::infer(step, known);
}

void Interpreter::keep(const Step& step, std::vector<at::Tensor> outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) values_[step.outputs.at(i)] = std::move(outputs[i]);
}

std::vector<at::Tensor> Interpreter::make_outputs(const Step& step) {
    std::vector<at::Tensor> outputs;
    for (const auto& type : infer(step)) outputs.push_back(empty(type.type));
    keep(step, outputs);
    return outputs;
}

void Interpreter::run_row(const Step& step) {
    const auto types = infer(step);
    const auto arguments = inputs(step);
    std::vector<emulator::TensorArg> targets;
    std::vector<c10::intrusive_ptr<FoundShape>> found;
    for (std::size_t i = 0; i < types.size(); ++i) {
        TensorType type = types[i].type;
        if (!types[i].bound.empty()) type.dims = types[i].bound;
        if (!type.is_static())
            fail_at(step, "its output " + std::to_string(i) + " has the shape " + type.text() +
                              " although all inputs are known");
        found.push_back(types[i].bound.empty() ? nullptr : c10::make_intrusive<FoundShape>());
        const bool in_place = i == 0 && step.writes_input;
        targets.push_back({in_place ? arguments[0] : empty(type), found.back()});
    }
    try {
        aclop::RowCall(*step.kernel, arguments, step.row_attributes, targets, step.spans).run();
    } catch (const std::exception& error) {
        fail_at(step, error.what());
    }
    std::vector<at::Tensor> outputs;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        at::Tensor output = targets[i].tensor;
        if (found[i] && found[i]->sizes) {
            const int64_t elements = c10::multiply_integers(*found[i]->sizes);
            output = output.reshape({-1}).narrow(0, 0, elements).view(*found[i]->sizes);
        }
        outputs.push_back(std::move(output));
    }
    keep(step, std::move(outputs));
}

void Interpreter::run(const Step& step) {
    switch (step.kind) {
        case Kind::view:
            if (const auto views = make_views(step, inputs(step), infer(step))) return keep(step, *views);
            return run_row(step);
        case Kind::shape: {
            std::vector<TensorType> types;
            for (const int input : step.inputs) types.push_back(type_of(program_, input, values_[input]));
            return keep(step, shape_values(step, types, infer(step)));
        }
        case Kind::branch:
        case Kind::loop:
            return keep(step, run_control_flow(step, inputs(step)));
        default:
            return run_row(step);
    }
}

void Interpreter::release(std::size_t step) {
    for (const int number : program_.dies[step])
        if (!program_.values[number].constant.defined()) values_[number].reset();
}

const Step* Interpreter::advance() {
    if (next_ > 0 && program_.steps[next_ - 1].kind == Kind::collective) release(next_ - 1);
    while (next_ < program_.steps.size()) {
        const Step& step = program_.steps[next_++];
        if (step.kind == Kind::collective) return &step;
        run(step);
        release(next_ - 1);
    }
    return nullptr;
}

std::vector<at::Tensor> Interpreter::results() const {
    std::vector<at::Tensor> tensors;
    for (const int result : program_.results) tensors.push_back(values_[result]);
    return tensors;
}

std::vector<at::Tensor> interpret(const Program& program, const std::vector<at::Tensor>& inputs) {
    Interpreter interpreter(program, inputs);
    if (const Step* step = interpreter.advance())
        fail_at(*step, "a collective inside a branch or loop is not implemented");
    return interpreter.results();
}

std::vector<at::Tensor> run_control_flow(const Step& step, const std::vector<at::Tensor>& inputs) {
    if (step.kind == Kind::loop) {
        std::vector<at::Tensor> state = own_written(*step.bodies[1], inputs);
        while (is_true(interpret(*step.bodies[0], own_written(*step.bodies[0], state)).at(0)))
            state = interpret(*step.bodies[1], state);
        return state;
    }
    const bool is_case = step.op->name.ends_with("Case");
    const Program& body = *step.bodies[choose(inputs[0], is_case, step.bodies.size())];
    return interpret(body, own_written(body, {inputs.begin() + 1, inputs.end()}));
}

}  // namespace npu::ge
