#include "ge/engine/program.h"

#include <ATen/TensorUtils.h>

#include <algorithm>
#include <cstring>

#include "kernels/dtype.h"

namespace npu::ge {

bool Value::contiguous() const {
    if (offset != 0) return false;
    int64_t expected = 1;
    for (std::size_t i = type.dims.size(); i-- > 0;) {
        if (type.dims[i] != 1 && strides[i] != expected) return false;
        expected *= std::max<int64_t>(type.dims[i], 1);
    }
    return true;
}

int add_value(Program& program, Value value) {
    const int number = static_cast<int>(program.values.size());
    if (value.root < 0) value.root = number;
    if (!value.type.is_static()) {
        program.is_static = false;
    } else if (value.strides.empty()) {
        value.strides.resize(value.type.dims.size());
        int64_t stride = 1;
        for (std::size_t i = value.strides.size(); i-- > 0;) {
            value.strides[i] = stride;
            stride *= std::max<int64_t>(value.type.dims[i], 1);
        }
    }
    program.values.push_back(std::move(value));
    return number;
}

void fail_at(const Step& step, const std::string& what) {
    throw graph::GraphError("node '" + step.node + "' (" + (step.op ? step.op->name : "fused region") +
                            "): " + what);
}

void fail_at(const graph::Node& node, const std::string& what) {
    throw graph::GraphError("node '" + node.name + "' (" + node.type + "): " + what);
}

at::ScalarType scalar_type(graph::DataType type) {
    const auto found = emulator::scalar_type(type);
    if (!found)
        throw graph::GraphError(std::string("the host emulator has no arithmetic for the type ") +
                                graph::dtype_name(type));
    return *found;
}

at::Tensor empty(const TensorType& type) {
    return at::empty(type.dims, at::TensorOptions().dtype(scalar_type(type.dtype)));
}

at::Tensor from_constant(const graph::Constant& value) {
    at::Tensor tensor = empty(value.type);
    if (value.data.size() != tensor.nbytes())
        throw graph::GraphError("a constant of type " + value.type.text() + " has " +
                                std::to_string(value.data.size()) + " bytes, not " +
                                std::to_string(tensor.nbytes()));
    if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), value.data.data(), tensor.nbytes());
    return tensor;
}

graph::Constant to_constant(const at::Tensor& value, graph::DataType type) {
    const at::Tensor dense = value.contiguous();
    graph::Constant constant{{type, dense.sizes().vec()}, std::vector<std::byte>(dense.nbytes())};
    if (!constant.data.empty()) std::memcpy(constant.data.data(), dense.const_data_ptr(), dense.nbytes());
    return constant;
}

}  // namespace npu::ge
