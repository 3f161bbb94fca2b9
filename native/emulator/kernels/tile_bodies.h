// The tile bodies, compiled once for each instruction set: tile_<set>.cpp defines NPU_TILE_SET and includes
// this. Nothing here may instantiate a function that other files share, or the linker could keep the copy
// with instructions that the machine lacks: hence no containers and no algorithms.
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include "kernels/tile_table.h"

namespace npu::emulator::tile::NPU_TILE_SET {
namespace {

using at::vec::Vectorized;

template <class T, bool Single>
struct Source {
    const T* data;
    Vectorized<T> value;

    explicit Source(const Operand& operand) : data(static_cast<const T*>(operand.data)), value(*data) {}
    Vectorized<T> at(int64_t i) const {
        if constexpr (Single) return value;
        return Vectorized<T>::loadu(data + i);
    }
    Vectorized<T> at(int64_t i, int64_t count) const {
        if constexpr (Single) return value;
        return Vectorized<T>::loadu(data + i, count);
    }
};

template <class F, class T, class... S>
void loop(T* out, int64_t n, const S&... sources) {
    constexpr int64_t kStep = Vectorized<T>::size();
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep) F::of(sources.at(i)...).store(out + i);
    if (i < n) F::of(sources.at(i, n - i)...).store(out + i, static_cast<int>(n - i));
}

template <class F, class T>
void unary(void* out, const Operand* operands, int64_t n) {
    auto* to = static_cast<T*>(out);
    if (operands[0].single) return loop<F>(to, n, Source<T, true>(operands[0]));
    loop<F>(to, n, Source<T, false>(operands[0]));
}

template <class F, class T, bool First>
void binary_with(T* out, const Operand* operands, int64_t n) {
    const Source<T, First> first(operands[0]);
    if (operands[1].single) return loop<F>(out, n, first, Source<T, true>(operands[1]));
    loop<F>(out, n, first, Source<T, false>(operands[1]));
}
template <class F, class T>
void binary(void* out, const Operand* operands, int64_t n) {
    auto* to = static_cast<T*>(out);
    if (operands[0].single) return binary_with<F, T, true>(to, operands, n);
    binary_with<F, T, false>(to, operands, n);
}

// What ATen's CPU rows do with a vector.
#define NPU_UNARY(Name, expression) \
    struct Name {                   \
        template <class V>          \
        static V of(const V& a) {   \
            return expression;      \
        }                           \
    };
#define NPU_BINARY(Name, expression)          \
    struct Name {                             \
        template <class V>                    \
        static V of(const V& a, const V& b) { \
            return expression;                \
        }                                     \
    };
NPU_UNARY(Abs, a.abs())
NPU_UNARY(Neg, a.neg())
NPU_UNARY(Sqrt, a.sqrt())
NPU_UNARY(Rsqrt, a.rsqrt())
NPU_UNARY(Reciprocal, a.reciprocal())
NPU_UNARY(Square, a* a)
NPU_UNARY(Exp, a.exp())
NPU_UNARY(Relu, at::vec::clamp_min(a, V(0)))
NPU_BINARY(Add, a + b)
NPU_BINARY(Sub, a - b)
NPU_BINARY(Mul, a* b)
NPU_BINARY(Div, a / b)
NPU_BINARY(And, a& b)
NPU_BINARY(Or, a | b)
NPU_BINARY(Xor, a ^ b)
NPU_BINARY(ShiftLeft, a << b)
NPU_BINARY(ShiftRight, a >> b)
NPU_BINARY(FloatMaximum, at::vec::maximum(a, b))
NPU_BINARY(FloatMinimum, at::vec::minimum(a, b))
#undef NPU_UNARY
#undef NPU_BINARY

// In float for narrower types: with AVX512, Vectorized's own maximum of two of those loses NaNs.
template <class F>
struct InFloat {
    static Vectorized<float> of(const Vectorized<float>& a, const Vectorized<float>& b) {
        return F::of(a, b);
    }
    template <class T>
    static Vectorized<T> of(const Vectorized<T>& a, const Vectorized<T>& b) {
        const auto [a_low, a_high] = at::vec::convert_to_float<T>(a);
        const auto [b_low, b_high] = at::vec::convert_to_float<T>(b);
        return at::vec::convert_from_float<T>(F::of(a_low, b_low), F::of(a_high, b_high));
    }
};
using Maximum = InFloat<FloatMaximum>;
using Minimum = InFloat<FloatMinimum>;

template <class F>
constexpr Row one(const char* type, Code code) {
    return {type, code, 1, {unary<F, float>, unary<F, c10::Half>, unary<F, c10::BFloat16>}};
}
template <class F>
constexpr Row one_of_floats(const char* type) {
    return {type, Code::none, 1, {unary<F, float>}};
}
template <class F>
constexpr Row two(const char* type, Code code) {
    return {type, code, 2, {binary<F, float>, binary<F, c10::Half>, binary<F, c10::BFloat16>}};
}
template <class F>
constexpr Row two_of_numbers(const char* type, Code code) {
    Row row = two<F>(type, code);
    row.bodies[3] = binary<F, int32_t>;
    return row;
}
template <class F>
constexpr Row two_of_integers(const char* type) {
    return {type, Code::none, 2, {nullptr, nullptr, nullptr, binary<F, int32_t>}};
}

// Between float and a type of half its width: two vectors of float are one of the other.
template <class T>
void widen(void* out, const Operand* operands, int64_t n) {
    constexpr int64_t kStep = Vectorized<T>::size(), kHalf = kStep / 2;
    const auto* from = static_cast<const T*>(operands[0].data);
    auto* to = static_cast<float*>(out);
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep) {
        const auto [low, high] = at::vec::convert_to_float<T>(Vectorized<T>::loadu(from + i));
        low.store(to + i);
        high.store(to + i + kHalf);
    }
    for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <class T>
void narrow(void* out, const Operand* operands, int64_t n) {
    constexpr int64_t kStep = Vectorized<T>::size(), kHalf = kStep / 2;
    const auto* from = static_cast<const float*>(operands[0].data);
    auto* to = static_cast<T*>(out);
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep)
        at::vec::convert_from_float<T>(Vectorized<float>::loadu(from + i),
                                       Vectorized<float>::loadu(from + i + kHalf))
            .store(to + i);
    for (; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

// N vectors of a chain, in registers.
template <std::size_t N>
struct Pack {
    Vectorized<float> values[N];
    Vectorized<float>& operator[](std::size_t i) { return values[i]; }
};

template <class F, std::size_t N>
[[gnu::always_inline]] inline void each(Pack<N>& pack) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < N; ++i) pack[i] = F::of(pack[i]);
}
template <class F, std::size_t N>
[[gnu::always_inline]] inline void with(Pack<N>& pack, const Link& link) {
    const Vectorized<float> element(*link.element);
    if (link.element_first) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < N; ++i) pack[i] = F::of(element, pack[i]);
    } else {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < N; ++i) pack[i] = F::of(pack[i], element);
    }
}

template <std::size_t N>
[[gnu::always_inline]] inline void apply(Pack<N>& pack, const Link& link) {
    switch (static_cast<Code>(link.code)) {
        case Code::abs:
            return each<Abs>(pack);
        case Code::neg:
            return each<Neg>(pack);
        case Code::sqrt:
            return each<Sqrt>(pack);
        case Code::rsqrt:
            return each<Rsqrt>(pack);
        case Code::reciprocal:
            return each<Reciprocal>(pack);
        case Code::square:
            return each<Square>(pack);
        case Code::relu:
            return each<Relu>(pack);
        case Code::add:
            return with<Add>(pack, link);
        case Code::sub:
            return with<Sub>(pack, link);
        case Code::mul:
            return with<Mul>(pack, link);
        case Code::div:
            return with<Div>(pack, link);
        case Code::maximum:
            return with<Maximum>(pack, link);
        case Code::minimum:
            return with<Minimum>(pack, link);
        case Code::none:
            return;  // never a link: chains are of floats
    }
}

void chain(float* out, const float* in, const Link* links, std::size_t count, int64_t n) {
    using V = Vectorized<float>;
    constexpr int64_t kStep = V::size(), kPack = 8;
    int64_t i = 0;
    for (; i + kPack * kStep <= n; i += kPack * kStep) {
        Pack<kPack> pack;
#pragma GCC unroll 8
        for (int64_t k = 0; k < kPack; ++k) pack[k] = V::loadu(in + i + k * kStep);
        for (std::size_t l = 0; l < count; ++l) apply(pack, links[l]);
#pragma GCC unroll 8
        for (int64_t k = 0; k < kPack; ++k) pack[k].store(out + i + k * kStep);
    }
    for (; i < n; i += kStep) {
        const int64_t left = n - i < kStep ? n - i : kStep;
        Pack<1> pack{{V::loadu(in + i, left)}};
        for (std::size_t l = 0; l < count; ++l) apply(pack, links[l]);
        pack[0].store(out + i, static_cast<int>(left));
    }
}

constexpr Row kRows[]{one<Abs>("Abs", Code::abs),
                      one<Neg>("Neg", Code::neg),
                      one<Sqrt>("Sqrt", Code::sqrt),
                      one<Rsqrt>("Rsqrt", Code::rsqrt),
                      one<Reciprocal>("Reciprocal", Code::reciprocal),
                      one<Square>("Square", Code::square),
                      one<Relu>("Relu", Code::relu),
                      one_of_floats<Exp>("Exp"),
                      two_of_numbers<Add>("Add", Code::add),
                      two_of_numbers<Add>("AddV2", Code::add),
                      two_of_numbers<Sub>("Sub", Code::sub),
                      two_of_numbers<Mul>("Mul", Code::mul),
                      two<Div>("Div", Code::div),
                      two<Div>("RealDiv", Code::div),
                      two<Maximum>("Maximum", Code::maximum),
                      two<Minimum>("Minimum", Code::minimum),
                      two_of_integers<And>("BitwiseAnd"),
                      two_of_integers<Or>("BitwiseOr"),
                      two_of_integers<Xor>("BitwiseXor"),
                      two_of_integers<ShiftLeft>("LeftShift"),
                      two_of_integers<ShiftRight>("RightShift")};

constexpr Bodies kBodies{
    kRows,
    {{{nullptr, narrow<c10::Half>, narrow<c10::BFloat16>}, {widen<c10::Half>}, {widen<c10::BFloat16>}}},
    chain};

}  // namespace

const Bodies& bodies() { return kBodies; }

}  // namespace npu::emulator::tile::NPU_TILE_SET
