// The table of operators: a name per door and one body with typed parameters.
//
//     const Table table{
//         {"aclnnAbs", Ge{"Abs"}, [](const Tensor& self, const Tensor& out) { at::abs_out(mut(out), self);
//         }},
//     };
//
// A body's parameters are, in order: for aclnn the parameters of aclnnXGetWorkspaceSize before workspaceSize;
// for GE the inputs, the attributes that Ge{} names (in that order), the outputs. Accepted parameter types:
// const Tensor& (required), std::optional<Tensor>, DynamicOutput, const Scalar&, std::optional<Scalar>,
// IntArrayRef (null: empty), OptionalIntArrayRef, const BoolList&, const std::vector<double>&, const
// std::vector<Tensor>&, const std::vector<Scalar>&, int64_t, double, bool, const std::string&, ScalarType,
// and std::optional of the last five for GE attributes with a default.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/value.h"

#pragma GCC visibility push(default)  // used by the doors, other libraries
namespace npu::emulator {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

// Outputs arrive as const Tensor&: ATen's out variants want Tensor&, which only a named lvalue is.
inline Tensor& mut(const Tensor& tensor) { return const_cast<Tensor&>(tensor); }

// Writes a computed value into an output of the same shape, converting to its dtype.
// Throws (naming both shapes) when the shapes differ: an output is never resized, and never broadcast into.
void write(const Tensor& out, const Tensor& value);

namespace detail {

[[noreturn]] void bad_argument(std::size_t index, const char* wanted, const Arg& got);

template <class T>
struct Cast;  // static T from(const Arg&, std::size_t index); static constexpr char letter

template <>
struct Cast<Tensor> {
    static constexpr char letter = 'T';
    static const Tensor& from(const Arg& arg, std::size_t index) {
        auto* tensor = std::get_if<TensorArg>(&arg);
        if (tensor == nullptr || !tensor->tensor.defined()) bad_argument(index, "a tensor", arg);
        return tensor->tensor;
    }
};
template <>
struct Cast<std::optional<Tensor>> {
    static constexpr char letter = 'T';
    static std::optional<Tensor> from(const Arg& arg, std::size_t index) {
        if (std::holds_alternative<std::monostate>(arg)) return std::nullopt;
        auto* tensor = std::get_if<TensorArg>(&arg);
        if (tensor == nullptr) bad_argument(index, "a tensor or null", arg);
        return tensor->tensor.defined() ? std::optional<Tensor>(tensor->tensor) : std::nullopt;
    }
};
template <>
struct Cast<DynamicOutput> {
    static constexpr char letter = 'T';
    static DynamicOutput from(const Arg& arg, std::size_t index) {
        return {Cast<Tensor>::from(arg, index), std::get<TensorArg>(arg).sink};
    }
};
template <>
struct Cast<Scalar> {
    static constexpr char letter = 'S';
    static Scalar from(const Arg& arg, std::size_t index) {
        if (auto* scalar = std::get_if<Scalar>(&arg)) return *scalar;
        if (auto* number = std::get_if<double>(&arg)) return *number;
        if (auto* number = std::get_if<int64_t>(&arg)) return *number;
        bad_argument(index, "a scalar", arg);
    }
};
template <>
struct Cast<IntArrayRef> {
    static constexpr char letter = 'I';
    static IntArrayRef from(const Arg& arg, std::size_t index) {
        if (std::holds_alternative<std::monostate>(arg)) return {};
        if (auto* ints = std::get_if<std::vector<int64_t>>(&arg)) return *ints;
        bad_argument(index, "an array of integers", arg);
    }
};
template <>
struct Cast<OptionalIntArrayRef> {
    static constexpr char letter = 'I';
    static OptionalIntArrayRef from(const Arg& arg, std::size_t index) {
        if (std::holds_alternative<std::monostate>(arg)) return std::nullopt;
        return Cast<IntArrayRef>::from(arg, index);
    }
};
template <>
struct Cast<int64_t> {
    static constexpr char letter = 'i';
    static int64_t from(const Arg& arg, std::size_t index) {
        if (auto* number = std::get_if<int64_t>(&arg)) return *number;
        if (auto* flag = std::get_if<bool>(&arg)) return *flag;
        bad_argument(index, "an integer", arg);
    }
};
template <>
struct Cast<double> {
    static constexpr char letter = 'd';
    static double from(const Arg& arg, std::size_t index) {
        if (auto* number = std::get_if<double>(&arg)) return *number;
        if (auto* number = std::get_if<int64_t>(&arg)) return static_cast<double>(*number);
        bad_argument(index, "a number", arg);
    }
};
template <>
struct Cast<bool> {
    static constexpr char letter = 'b';
    static bool from(const Arg& arg, std::size_t index) {
        if (auto* flag = std::get_if<bool>(&arg)) return *flag;
        if (auto* number = std::get_if<int64_t>(&arg)) return *number != 0;
        bad_argument(index, "a flag", arg);
    }
};
template <>
struct Cast<ScalarType> {
    static constexpr char letter = 't';
    static ScalarType from(const Arg& arg, std::size_t index);
};

template <class T, char Letter>
struct CastHeld {
    static constexpr char letter = Letter;
    static const T& from(const Arg& arg, std::size_t index) {
        static const T empty{};
        if (std::holds_alternative<std::monostate>(arg)) return empty;
        if (auto* held = std::get_if<T>(&arg)) return *held;
        bad_argument(index, "another kind of argument", arg);
    }
};
template <>
struct Cast<BoolList> : CastHeld<BoolList, 'B'> {};
template <>
struct Cast<std::vector<double>> : CastHeld<std::vector<double>, 'F'> {};
template <>
struct Cast<std::vector<Tensor>> : CastHeld<std::vector<Tensor>, 'L'> {};
template <>
struct Cast<std::vector<Scalar>> : CastHeld<std::vector<Scalar>, 'l'> {};
template <>
struct Cast<std::string> : CastHeld<std::string, 's'> {};

template <class T>
struct Cast<std::optional<T>> {
    static constexpr char letter = Cast<T>::letter;
    static std::optional<T> from(const Arg& arg, std::size_t index) {
        if (std::holds_alternative<std::monostate>(arg)) return std::nullopt;
        return Cast<T>::from(arg, index);
    }
};

template <class... P>
struct Signature {
    static std::string letters() { return {Cast<std::remove_cvref_t<P>>::letter...}; }
    template <class F, std::size_t... I>
    static void call(const F& body, const Args& args, std::index_sequence<I...>) {
        body(Cast<std::remove_cvref_t<P>>::from(args[I], I)...);
    }
    static constexpr std::size_t arity = sizeof...(P);
};
template <class F>
struct Traits : Traits<decltype(&F::operator())> {};
template <class F, class R, class... P>
struct Traits<R (F::*)(P...) const> : Signature<P...> {};
template <class R, class... P>
struct Traits<R (*)(P...)> : Signature<P...> {};

}  // namespace detail

// One row of the table. `letters` spells the parameters (T tensor, S scalar, I ints, B bools, F floats, L
// tensors, l scalars, i int, d float, b bool, s string, t dtype); it is compared with CANN's prototype.
struct Kernel {
    std::string name;
    std::string letters;
    std::vector<std::string> attributes;  // GE only
    std::function<void(const Args&)> body;
    bool elementwise = false;  // the output may be the very same memory as an input
    bool updates = false;      // the output is the first input with changes, and may be its very memory
};

// The arguments of an operator that exists in many versions, by the names of CANN's prototype.
class NamedArgs {
  public:
    NamedArgs(const Args& args, const std::vector<std::string>& names) : args_(args), names_(names) {}

    // Throws when this version has no such parameter.
    template <class T>
    auto get(std::string_view name) const {
        const auto index = find(name);
        TORCH_CHECK(index < names_.size(), "has no parameter ", name);
        return std::remove_cvref_t<T>(detail::Cast<T>::from(args_[index], index));
    }
    // The fallback when this version has no such parameter.
    template <class T>
    T get(std::string_view name, T fallback) const {
        const auto index = find(name);
        return index < names_.size() ? T(detail::Cast<T>::from(args_[index], index)) : fallback;
    }
    // A tensor that may be absent: null, empty (as torch_npu hands it over), or no parameter of this version.
    std::optional<Tensor> present(std::string_view name) const;

  private:
    std::size_t find(std::string_view name) const;
    const Args& args_;
    const std::vector<std::string>& names_;
};

struct Ge {
    const char* type;
    std::initializer_list<const char*> attributes = {};
};

struct Entry {
    template <class F>
    Entry(const char* aclnn, F body) : Entry(aclnn, Ge{nullptr}, std::move(body)) {}
    template <class F>
    Entry(Ge ge, F body) : Entry(nullptr, ge, std::move(body)) {}
    template <class F>
    Entry(const char* aclnn_name, Ge ge, F function)
        : aclnn(aclnn_name ? aclnn_name : ""), ge(ge.type ? ge.type : "") {
        kernel.attributes.assign(ge.attributes.begin(), ge.attributes.end());
        kernel.letters = detail::Traits<F>::letters();
        kernel.body = [function](const Args& args) {
            detail::Traits<F>::call(function, args, std::make_index_sequence<detail::Traits<F>::arity>{});
        };
    }
    Entry elementwise() && {
        kernel.elementwise = true;
        return std::move(*this);
    }

    Entry updates() && {
        kernel.updates = true;
        return std::move(*this);
    }

    std::string aclnn, ge;
    Kernel kernel;
};

// Registers its rows while the library loads; a name given twice ends the process with a message.
struct Table {
    Table(std::initializer_list<Entry> entries);
    // One body for several aclnn versions.
    Table(std::initializer_list<const char*> aclnn_names, std::function<void(const NamedArgs&)> body);
    explicit Table(const std::vector<Entry>& entries);
};

// The kernel of an operator, or null. aclnnInplaceX is derived from aclnnX (self, ..., out) unless it has a
// row of its own.
const Kernel* find_aclnn(std::string_view name);
const Kernel* find_ge(std::string_view type);

// Runs a kernel with the thread's autograd, autocast and Python modes out of the way. Throws what the kernel
// throws.
void run(const Kernel& kernel, const Args& args);

}  // namespace npu::emulator
#pragma GCC visibility pop
