// Shape and dtype inference: one rule per operator type, in families (infer_*.cpp).
#pragma once

#include "graph/catalogue.h"
#include "graph/model.h"

namespace npu::graph {

/// What is known of an input: its type, and its value where it is known before the operator runs (else null).
struct Operand {
    TensorType type;
    const Constant* value = nullptr;
};

/// The type of an output. `bound` is the largest shape where only the computation knows the shape (NonZero:
/// dims has kUnknown); else empty.
struct Inferred {
    TensorType type;
    std::vector<int64_t> bound;
};

/// The types of a node's outputs from its attributes (defaults filled in) and flattened inputs. Sizes that
/// depend on a value which is not known are kUnknown. With static inputs and all values known, every result
/// is static or has a bound. `input_names`: see input_spans. `outputs`: how many outputs the node has where
/// an output is dynamic (Split: from attributes, 0 here). Throws GraphError, naming the operator and what
/// does not fit (shapes that do not broadcast, a bad axis, ...) or that there is no rule.
std::vector<Inferred> infer(const OperatorDef& op, const Attributes& attributes,
                            std::span<const Operand> inputs, std::span<const std::string> input_names = {},
                            std::size_t outputs = 0);

/// Whether there is a rule, and the catalogue inputs whose value decides a shape (ReduceSum: {"axes"}).
bool has_rule(std::string_view type);
std::span<const char* const> value_inputs(std::string_view type);
std::vector<std::string> inferred_operators();  ///< sorted

}  // namespace npu::graph
