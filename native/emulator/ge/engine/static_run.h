// A static program bound to addresses: everything that can be decided before it runs is.
#pragma once

#include <functional>

#include "ge/engine/program.h"

namespace npu::ge {

/// A collective between two stretches of computation.
struct Exchange {
    const Step* step;
    std::vector<at::Tensor> inputs, outputs;  ///< dense
};

/// Commands that run in one go, then a collective (the last stretch has none).
struct Stretch {
    std::vector<std::function<void()>> commands;
    std::optional<Exchange> exchange;
};

/// `workspace`: program.workspace bytes. `inputs` and `outputs` are tensors on the caller's memory; an output
/// may be the memory of an input: it is written when nothing reads that input any more. The program must
/// outlive the result.
std::vector<Stretch> bind(const Program& program, const std::vector<at::Tensor>& inputs,
                          const std::vector<at::Tensor>& outputs, std::byte* workspace);

}  // namespace npu::ge
