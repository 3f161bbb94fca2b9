// What a kernel is handed: the arguments of an operator, free of the door (aclnn, aclop, graph) they came
// through.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)  // used by the doors, other libraries
namespace npu::emulator {

// Takes the shape of an output that only the computation knows (nonzero, unique, masked_select). Counted,
// because callers destroy their tensor handles while the operator is still queued.
class ShapeSink : public c10::intrusive_ptr_target {
  public:
    virtual void set_view_shape(at::IntArrayRef sizes) = 0;
};

struct TensorArg {
    at::Tensor tensor;  // undefined: the caller passed null for an optional tensor
    c10::intrusive_ptr<ShapeSink> sink = {};
};

using BoolList = c10::SmallVector<bool, 8>;

// monostate: a null pointer of a kind other than tensor, or a GE attribute that was not given.
using Arg = std::variant<std::monostate, TensorArg, at::Scalar, std::vector<int64_t>, BoolList,
                         std::vector<double>, std::vector<at::Tensor>, std::vector<at::Scalar>, int64_t,
                         double, bool, std::string, at::ScalarType>;
using Args = std::vector<Arg>;

// An output whose extent is found by the kernel. The buffer is as large as the result can become.
struct DynamicOutput {
    at::Tensor buffer;
    c10::intrusive_ptr<ShapeSink> sink;

    // Copies `value` to the front of the buffer and reports its shape.
    // Throws when the buffer is too small or nobody can take the shape.
    void set(const at::Tensor& value) const;
};

}  // namespace npu::emulator
#pragma GCC visibility pop
