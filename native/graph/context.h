// What an inference rule sees of its node: inputs and attributes by the catalogue's names (internal to this
// folder).
#pragma once

#include <functional>

#include "graph/infer.h"

namespace npu::graph {

using Dims = std::vector<int64_t>;

/// An input by its name in the catalogue, or by its place there.
struct Key {
    Key(const char* name) : name(name) {}
    Key(std::size_t place) : place(place) {}
    Key(int place) : place(static_cast<std::size_t>(place)) {}
    const char* name = nullptr;
    std::size_t place = 0;
};

/// One call of a rule. A rule asks for dims and values where it needs them and adds its outputs in order.
/// What it asks for may not be known: then the shape that was being computed is not known either, and out()
/// notes an unranked type.
class Context {
  public:
    Context(const OperatorDef& op, const Attributes& attributes, std::span<const Operand> inputs,
            std::span<const std::string> names, std::size_t outputs);

    const OperatorDef& op;
    const std::size_t output_count;  ///< of a node with dynamic outputs; 0: from attributes

    bool has(Key input) const;
    const Operand& in(Key input) const;             ///< GraphError where it is absent
    std::span<const Operand> all(Key input) const;  ///< the elements of a dynamic input
    std::span<const Operand> inputs() const { return inputs_; }
    DataType dtype(Key input) const { return in(input).type.dtype; }
    bool ranked(Key input) const { return in(input).type.ranked; }
    const Dims& dims(Key input) const;  ///< of an input of known rank
    int64_t rank(Key input) const { return static_cast<int64_t>(dims(input).size()); }
    /// The integers that an input holds, where they are known before the operator runs.
    std::optional<Dims> value(Key input) const;
    Dims need_value(Key input) const;  ///< the same; where unknown, so is the shape
    int64_t need_scalar(Key input) const;
    [[noreturn]] void unknown() const;  ///< the shape that is being computed cannot be known

    bool given(std::string_view attribute) const;  ///< set, or with a default
    int64_t integer(std::string_view attribute) const;
    double real(std::string_view attribute) const;
    bool flag(std::string_view attribute) const;
    DataType type(std::string_view attribute) const;
    const std::string& text(std::string_view attribute) const;
    Dims integers(std::string_view attribute) const;
    std::vector<bool> flags(std::string_view attribute) const;
    std::shared_ptr<const Constant> constant(std::string_view attribute) const;  ///< null where it is not set

    using ShapeRule = std::function<Dims()>;
    void out(DataType dtype, const ShapeRule& shape);
    void out(DataType dtype, const ShapeRule& shape, const ShapeRule& bound);
    void out(const TensorType& type) { results.push_back({type, {}}); }
    void absent() { results.push_back({}); }  ///< an optional output that is not made

    /// "Add: what does not fit (x1 float32[2,3], x2 float32[4])".
    [[noreturn]] void fail(const std::string& what) const;

    std::vector<Inferred> results;

  private:
    std::size_t place_of(Key input) const;
    const Attribute& attribute(std::string_view name) const;
    template <class T>
    const T& attribute_as(std::string_view name) const;

    const Attributes& attributes_;
    std::span<const Operand> inputs_;
    std::vector<Span> spans_;
};

/// A rule of the table. `values`: the inputs whose value decides a shape, up to the first null.
struct Rule {
    const char* type;
    void (*infer)(Context&);
    const char* values[4] = {};
};

// One table a family.
std::span<const Rule> elementwise_rules();
std::span<const Rule> reduce_rules();
std::span<const Rule> movement_rules();
std::span<const Rule> joining_rules();
std::span<const Rule> slice_rules();
std::span<const Rule> indexing_rules();
std::span<const Rule> creation_rules();
std::span<const Rule> matmul_rules();
std::span<const Rule> norm_rules();
std::span<const Rule> attention_rules();
std::span<const Rule> conv_rules();
std::span<const Rule> loss_rules();
std::span<const Rule> collective_rules();
std::span<const Rule> state_rules();

}  // namespace npu::graph
