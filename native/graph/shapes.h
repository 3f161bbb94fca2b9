// Arithmetic on shapes with sizes that may not be known (internal to this folder).
#pragma once

#include "graph/context.h"

namespace npu::graph {

/// NumPy's broadcasting; GraphError where they do not fit.
Dims broadcast(const Context& context, const Dims& a, const Dims& b);
/// The shape of tensors that must agree; GraphError where they do not.
Dims agreed(const Context& context, const Dims& a, const Dims& b);
/// An axis counted from either end as 0..rank-1. A scalar is taken as a vector of one, as CANN does.
std::size_t axis_of(const Context& context, int64_t axis, std::size_t rank);
/// Without the axes, or with size 1 there.
Dims reduced(const Context& context, const Dims& dims, const Dims& axes, bool keep);
/// kUnknown where a size is, and where it overflows GraphError.
int64_t product(const Context& context, std::span<const int64_t> dims);
/// How many entries a vector has that holds a shape, from the vector's own shape; unknown where it is.
/// GraphError for more than any shape has.
std::size_t length_of(const Context& context, Key input);
/// A shape of that many unknown sizes.
Dims unknown_of_length(const Context& context, Key input);
/// Arithmetic that says GraphError where it overflows.
int64_t plus(const Context& context, int64_t a, int64_t b);
int64_t times(const Context& context, int64_t a, int64_t b);
int64_t sum_sizes(const Context& context, int64_t a, int64_t b);  ///< kUnknown where one is
bool same_size(int64_t a, int64_t b);                             ///< or one of them not known

/// All inputs that are there have one data type, which is returned; GraphError otherwise.
DataType common_dtype(const Context& context);
/// The data type that CANN computes in where an operator promotes; GraphError where there is none.
DataType promoted(const Context& context, DataType a, DataType b);

}  // namespace npu::graph
