#include "graph/shapes.h"

#include <algorithm>

namespace npu::graph {

bool same_size(int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; }

int64_t plus(const Context& context, int64_t a, int64_t b) {
    int64_t out;
    if (__builtin_add_overflow(a, b, &out)) context.fail("a size overflows");
    return out;
}

int64_t times(const Context& context, int64_t a, int64_t b) {
    int64_t out;
    if (__builtin_mul_overflow(a, b, &out)) context.fail("a size overflows");
    return out;
}

int64_t sum_sizes(const Context& context, int64_t a, int64_t b) {
    return a < 0 || b < 0 ? kUnknown : plus(context, a, b);
}

namespace {

int64_t broadcast_size(const Context& context, int64_t a, int64_t b) {
    if (a == 1) return b;
    if (b == 1) return a;
    if (a < 0) return b;  // the known one is not 1, and has to be the result
    if (b < 0 || a == b) return a;
    context.fail("the shapes do not broadcast: " + std::to_string(a) + " against " + std::to_string(b));
}

}  // namespace

Dims broadcast(const Context& context, const Dims& a, const Dims& b) {
    const Dims &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
    Dims out = longer;
    std::size_t offset = longer.size() - shorter.size();
    for (std::size_t at = 0; at < shorter.size(); ++at)
        out[offset + at] = broadcast_size(context, longer[offset + at], shorter[at]);
    return out;
}

Dims agreed(const Context& context, const Dims& a, const Dims& b) {
    if (a.size() != b.size()) context.fail("the inputs differ in rank");
    Dims out = a;
    for (std::size_t at = 0; at < a.size(); ++at) {
        if (!same_size(a[at], b[at])) context.fail("the inputs differ in dimension " + std::to_string(at));
        if (out[at] < 0) out[at] = b[at];
    }
    return out;
}

std::size_t axis_of(const Context& context, int64_t axis, std::size_t rank) {
    auto limit = static_cast<int64_t>(std::max<std::size_t>(rank, 1));
    if (axis < -limit || axis >= limit)
        context.fail("there is no axis " + std::to_string(axis) + " in " + std::to_string(rank) +
                     " dimensions");
    return static_cast<std::size_t>(axis < 0 ? axis + limit : axis);
}

Dims reduced(const Context& context, const Dims& dims, const Dims& axes, bool keep) {
    std::vector<bool> gone(std::max<std::size_t>(dims.size(), 1), false);
    for (int64_t axis : axes) gone[axis_of(context, axis, dims.size())] = true;
    Dims out;
    for (std::size_t at = 0; at < dims.size(); ++at) {
        if (!gone[at]) out.push_back(dims[at]);
        if (gone[at] && keep) out.push_back(1);
    }
    return out;
}

std::size_t length_of(const Context& context, Key input) {
    constexpr int64_t kMostDims = 1024;
    const Dims& length = context.dims(input);
    if (length.size() != 1 || length[0] < 0) context.unknown();
    if (length[0] > kMostDims)
        context.fail("a shape of " + std::to_string(length[0]) + " dimensions is too long");
    return static_cast<std::size_t>(length[0]);
}

Dims unknown_of_length(const Context& context, Key input) {
    return Dims(length_of(context, input), kUnknown);
}

int64_t product(const Context& context, std::span<const int64_t> dims) {
    if (std::ranges::find(dims, 0) != dims.end()) return 0;
    int64_t out = 1;
    for (int64_t size : dims) {
        if (size < 0) return kUnknown;
        out = times(context, out, size);
    }
    return out;
}

DataType common_dtype(const Context& context) {
    DataType common = ACL_DT_UNDEFINED;
    for (const Operand& operand : context.inputs()) {
        if (!operand.type.present()) continue;
        if (common == ACL_DT_UNDEFINED) common = operand.type.dtype;
        if (common != operand.type.dtype)
            context.fail(std::string("the inputs differ in data type, ") + dtype_name(common) + " and " +
                         dtype_name(operand.type.dtype) + "; put a Cast before one of them");
    }
    return common;
}

namespace {

/// The order in which CANN's type promotion prefers one type of a kind to another (its table in the
/// documentation of ge::Promote).
enum class Kind { boolean, unsigned_byte, integer, real, complex, other };

Kind kind_of(DataType type) {
    switch (type) {
        case ACL_BOOL:
            return Kind::boolean;
        case ACL_UINT8:
            return Kind::unsigned_byte;
        case ACL_INT8:
        case ACL_INT16:
        case ACL_INT32:
        case ACL_INT64:
            return Kind::integer;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_FLOAT:
        case ACL_DOUBLE:
            return Kind::real;
        case ACL_COMPLEX32:
        case ACL_COMPLEX64:
        case ACL_COMPLEX128:
            return Kind::complex;
        default:
            return Kind::other;
    }
}

DataType complex_of(DataType real) {
    return real == ACL_DOUBLE ? ACL_COMPLEX128 : real == ACL_FLOAT ? ACL_COMPLEX64 : ACL_COMPLEX32;
}

}  // namespace

DataType promoted(const Context& context, DataType a, DataType b) {
    if (a == b) return a;
    if (kind_of(a) > kind_of(b)) std::swap(a, b);  // b is of the stronger kind
    Kind weak = kind_of(a), strong = kind_of(b);
    if (strong == Kind::other)
        context.fail(std::string("CANN promotes ") + dtype_name(a) + " and " + dtype_name(b) +
                     " to no common data type; put a Cast before one");
    if (weak == Kind::unsigned_byte && strong == Kind::integer) return b == ACL_INT8 ? ACL_INT16 : b;
    if (weak == Kind::real && strong == Kind::complex)
        return element_size(complex_of(a)) > element_size(b) ? complex_of(a) : b;
    if (weak != strong) return b;
    if (element_size(a) == element_size(b)) return ACL_FLOAT;  // float16 and bfloat16
    return element_size(a) > element_size(b) ? a : b;
}

}  // namespace npu::graph
