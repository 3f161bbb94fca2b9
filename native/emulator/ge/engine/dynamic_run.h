// Runs programs whose shapes are found on the way, and the bodies of branches and loops.
#pragma once

#include "ge/engine/program.h"

namespace npu::ge {

/// Inputs and results by position; a result may share memory with an input. Steps before `first` are taken as
/// done.
class Interpreter {
  public:
    Interpreter(const Program& program, const std::vector<at::Tensor>& inputs);

    /// Runs on to the next collective (returned, with its inputs in values()) or to the end (nullptr).
    const Step* advance();
    /// The step's inputs, and its outputs, newly made, for a caller that runs a collective.
    std::vector<at::Tensor> inputs(const Step& step) const;
    std::vector<at::Tensor> make_outputs(const Step& step);

    std::vector<at::Tensor> results() const;

  private:
    std::vector<graph::Inferred> infer(const Step& step) const;
    void run(const Step& step);
    void run_row(const Step& step);
    void keep(const Step& step, std::vector<at::Tensor> outputs);
    void release(std::size_t step);

    const Program& program_;
    std::vector<at::Tensor> values_;
    std::size_t next_ = 0;
};

/// A program without collectives, from start to end.
std::vector<at::Tensor> interpret(const Program& program, const std::vector<at::Tensor>& inputs);

/// If, Case, While on tensors.
std::vector<at::Tensor> run_control_flow(const Step& step, const std::vector<at::Tensor>& inputs);

}  // namespace npu::ge
