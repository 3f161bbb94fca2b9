// A call of a GE operator as a row of the table of kernels: inputs by position, attributes in the order that
// the row names, outputs. Used by the single-operator door (adapter.cpp) and by the graph engine (../ge).
#pragma once

#include <stdexcept>

#include "aclop/handles.h"
#include "kernels/kernel.h"

#pragma GCC visibility push(default)  // used by ../ge
namespace npu::aclop {

/// Thrown while a call is taken apart. what() follows the operator's name: "input 0 has ...".
struct Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

using AttributeValues = decltype(aclopAttr::values);

/// Which of the flattened inputs belong to one input of the operator: several for a dynamic one, none for an
/// absent one.
struct InputSpan {
    std::size_t first = 0, count = 0;
};

/// A row and its arguments. Immutable once made: run() may be called again and again.
class RowCall {
  public:
    /// inputs: flattened; an absent optional one is an undefined tensor, trailing ones may be missing.
    /// spans: one for each input of the operator, where more than one is dynamic and position alone does not
    /// tell. Throws Refusal where the row does not take these inputs, attributes or outputs.
    RowCall(const emulator::Kernel& kernel, const std::vector<at::Tensor>& inputs,
            const AttributeValues& attributes, const std::vector<emulator::TensorArg>& outputs,
            const std::vector<InputSpan>& spans = {});

    /// Reads the inputs that the row takes as numbers, then computes. Throws what the kernel throws.
    void run() const;

    const emulator::Kernel& kernel() const { return *kernel_; }

    /// Where input or output `i` is among the arguments, for rows without lists.
    const at::Tensor& input(std::size_t i) const { return std::get<emulator::TensorArg>(args_[i]).tensor; }
    const at::Tensor& output(std::size_t i) const {
        return std::get<emulator::TensorArg>(args_[args_.size() - outputs_ + i]).tensor;
    }

  private:
    const emulator::Kernel* kernel_;
    emulator::Args args_;
    std::size_t outputs_ = 0;
    std::vector<std::size_t> numbers_;  ///< inputs that become numbers when the operator runs
};

/// Whether the row has a parameter or a rule for that attribute.
bool names_attribute(const emulator::Kernel& kernel, std::string_view attribute);

}  // namespace npu::aclop
#pragma GCC visibility pop
