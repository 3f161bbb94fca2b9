// GE operators that are an aclnn operator under other names: the same values, in that one's order.
#pragma once

#include "kernels/kernel.h"

namespace npu::emulator {
namespace detail {

template <class T>
Arg as_arg(const T& value) {
    return value;
}
inline Arg as_arg(int value) { return static_cast<int64_t>(value); }
inline Arg as_arg(const char* text) { return std::string(text); }
inline Arg as_arg(std::nullopt_t) { return {}; }
inline Arg as_arg(const Tensor& tensor) { return TensorArg{tensor}; }
inline Arg as_arg(IntArrayRef values) { return values.vec(); }
inline Arg as_arg(const DynamicOutput& output) { return TensorArg{output.buffer, output.sink}; }
template <class T>
Arg as_arg(const std::optional<T>& value) {
    return value ? as_arg(*value) : Arg();
}

}  // namespace detail

// Runs the row of an aclnn operator. Throws where there is none with so many parameters, and what it throws.
template <class... Values>
void call_aclnn(const char* name, const Values&... values) {
    const Kernel* const kernel = find_aclnn(name);
    TORCH_CHECK(kernel != nullptr && kernel->letters.size() == sizeof...(values), name, " with ",
                sizeof...(values), " parameters is not in the table of kernels");
    kernel->body({detail::as_arg(values)...});
}

}  // namespace npu::emulator
