#include "ge/engine/control_flow.h"

#include "ge/engine/fold.h"
#include "ge/engine/static_run.h"

namespace npu::ge {
namespace {

/// A body bound to its arguments and results, with the memory in which it works.
class BoundBody {
  public:
    BoundBody(const Program& program, const std::vector<at::Tensor>& inputs,
              const std::vector<at::Tensor>& outputs)
        : workspace_(at::empty({static_cast<int64_t>(program.workspace)}, at::kByte)),
          commands_(
              std::move(bind(program, inputs, outputs, static_cast<std::byte*>(workspace_.mutable_data_ptr()))
                            .front()
                            .commands)) {}

    void run() const {
        for (const auto& command : commands_) command();
    }

  private:
    at::Tensor workspace_;
    std::vector<std::function<void()>> commands_;
};

struct Copy {
    at::Tensor target, source;
    void run() const { target.copy_(source); }
};

/// A dense tensor of its own, and the copy that fills it.
Copy copy_of(const at::Tensor& source) { return {at::empty(source.sizes(), source.options()), source}; }

/// If, Case: each body computes into the step's own outputs.
class BoundBranch {
  public:
    BoundBranch(const Step& step, const std::vector<at::Tensor>& inputs,
                const std::vector<at::Tensor>& outputs)
        : condition_(inputs.at(0)), is_case_(step.op->name.ends_with("Case")) {
        for (const auto& body : step.bodies) {
            std::vector<at::Tensor> arguments(inputs.begin() + 1, inputs.end());
            Branch& branch = branches_.emplace_back();
            const std::vector<bool> written = written_arguments(*body);
            for (std::size_t i = 0; i < arguments.size(); ++i) {
                if (!written[i] && arguments[i].is_contiguous()) continue;  // bodies know dense arguments
                branch.copies.push_back(copy_of(arguments[i]));
                arguments[i] = branch.copies.back().target;
            }
            branch.body.emplace(*body, arguments, outputs);
        }
    }

    void run() const {
        const Branch& branch = branches_[choose(condition_, is_case_, branches_.size())];
        for (const Copy& copy : branch.copies) copy.run();
        branch.body->run();
    }

  private:
    struct Branch {
        std::vector<Copy> copies;  ///< of the arguments that the body writes to
        std::optional<BoundBody> body;
    };

    at::Tensor condition_;
    bool is_case_;
    std::vector<Branch> branches_;
};

/// While: its outputs hold the state, and the body reads and writes them in place. What the body hands on
/// unchanged (weights, in most loops) stays where it is until the end.
class BoundLoop {
  public:
    BoundLoop(const Step& step, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs)
        : holds_(at::empty({}, at::kBool)) {
        const Program &condition = *step.bodies[0], &body = *step.bodies[1];
        std::vector<at::Tensor> state = outputs;
        const std::vector<bool> written = written_arguments(body);
        for (std::size_t i = 0; i < state.size(); ++i) {
            const bool unchanged =
                body.results[i] == body.inputs[i] && !written[i] && inputs[i].is_contiguous();
            if (unchanged) state[i] = inputs[i];
            (unchanged ? after_ : before_).push_back({outputs[i], inputs[i]});
        }
        const Value& answer = condition.values[condition.results[0]];
        holds_ = empty(answer.type);
        std::vector<at::Tensor> asked = state;
        const std::vector<bool> spoiled = written_arguments(condition);
        for (std::size_t i = 0; i < asked.size(); ++i) {
            if (!spoiled[i]) continue;
            asked_.push_back(copy_of(state[i]));
            asked[i] = asked_.back().target;
        }
        condition_.emplace(condition, asked, std::vector<at::Tensor>{holds_});
        body_.emplace(body, state, state);
    }

    void run() const {
        for (const Copy& copy : before_) copy.run();
        while (again()) body_->run();
        for (const Copy& copy : after_) copy.run();
    }

  private:
    bool again() const {
        for (const Copy& copy : asked_) copy.run();
        condition_->run();
        return is_true(holds_);
    }

    std::vector<Copy> before_, after_, asked_;
    at::Tensor holds_;
    std::optional<BoundBody> condition_, body_;
};

template <class Bound>
std::function<void()> command(const Step& step, const std::vector<at::Tensor>& inputs,
                              const std::vector<at::Tensor>& outputs) {
    return [bound = std::make_shared<const Bound>(step, inputs, outputs)] { bound->run(); };
}

}  // namespace

std::vector<bool> written_arguments(const Program& program) {
    std::vector<bool> written(program.inputs.size(), false);
    for (const Step& step : program.steps) {
        if (!step.writes_input) continue;
        const int root = program.values[step.inputs[0]].root;
        for (std::size_t i = 0; i < written.size(); ++i) written[i] = written[i] || program.inputs[i] == root;
    }
    return written;
}

std::function<void()> bind_control_flow(const Step& step, const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& outputs) {
    return step.kind == Kind::loop ? command<BoundLoop>(step, inputs, outputs)
                                   : command<BoundBranch>(step, inputs, outputs);
}

}  // namespace npu::ge
