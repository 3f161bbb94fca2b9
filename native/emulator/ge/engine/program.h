// A graph ready to run: values, and steps in order. Made by lower.h from a model; planned by plan.h; run by
// static_run.h or dynamic_run.h.
#pragma once

#include <memory>
#include <optional>

#include "aclop/row_call.h"
#include "graph/catalogue.h"
#include "graph/infer.h"
#include "graph/model.h"

namespace npu::ge {

using graph::TensorType;

enum class Place { input, constant, temporary };

/// A tensor of the graph. Static programs know strides and offset; a view shares the memory of its root.
struct Value {
    TensorType type;
    Place place = Place::temporary;
    int root = -1;                      ///< the value that owns the memory; the value's own number if it does
    std::vector<int64_t> strides = {};  ///< in elements, of static values
    int64_t offset = 0;                 ///< in elements, from the root's first
    at::Tensor constant = {};           ///< Place::constant
    int index = -1;                     ///< Place::input: the number of the input
    std::string name = {};              ///< "node:output", for messages

    bool contiguous() const;  ///< static values: row-major without gaps, from the root's first element
};

enum class Kind {
    row,         ///< a row of the table of kernels
    view,        ///< the output shares the memory of the first input
    shape,       ///< Shape, ShapeN, Size, Rank
    branch,      ///< If, Case
    loop,        ///< While
    collective,  ///< Hcom*
    fused,       ///< a region that AutoFuse made: its steps are in `bodies`
    split,       ///< steps that run on pieces of their values, one on each core (split.h)
};

struct Program;

struct Step {
    Kind kind = Kind::row;
    std::string node;                          ///< name, for messages
    const graph::OperatorDef* op = nullptr;    ///< null: fused
    const emulator::Kernel* kernel = nullptr;  ///< Kind::row
    graph::Attributes attributes;              ///< complete
    aclop::AttributeValues row_attributes;     ///< what the row is handed
    std::vector<std::string> input_names;      ///< of descriptors, see graph::input_spans
    std::vector<int> inputs;                   ///< values, -1: absent
    std::vector<aclop::InputSpan> spans;       ///< Kind::row: the inputs of the operator among them
    std::vector<int> outputs;                  ///< values
    std::vector<std::shared_ptr<const Program>> bodies;
    bool writes_input = false;  ///< output 0 is input 0, changed in place (Assign, ScatterUpdate)
    // Kind::fused: bodies[0] is the program of a tile. Its values have the region's axes as dimensions, of
    // one element along those on which they do not lie; its inputs and results are the step's, in order.
    std::vector<int64_t> domain;  ///< the sizes of the axes
    std::size_t rows = 0;         ///< how many of the first ones tiles may cut
    std::vector<std::vector<std::vector<int>>> input_axes, output_axes;  ///< of each dimension of each value
    // Kind::split: bodies[0] is the program of one piece, a program of its own. The last output is scratch.
    int64_t pieces = 0;
    std::vector<int> input_cuts,
        output_cuts;  ///< the dimension along which it is cut; -1: each has all of it
};

struct Program {
    std::vector<Value> values;
    std::vector<Step> steps;
    std::vector<int> inputs, results;  ///< values
    bool is_static = true;
    bool has_collectives = false;

    // By plan(), static programs only.
    std::vector<std::optional<std::size_t>> offsets;  ///< of temporaries that own memory, in the workspace
    std::vector<int> result_of;  ///< value that owns memory -> the result it is written to directly, or -1
    std::size_t workspace = 0;
    std::vector<std::vector<int>> dies;  ///< values whose memory nobody reads after that step
};

/// Adds the value, row-major where it is static and has no strides; returns its number.
int add_value(Program& program, Value value);

/// "node 'add_3' (Add): what" as the exception that everything in the engine throws.
[[noreturn]] void fail_at(const Step& step, const std::string& what);
[[noreturn]] void fail_at(const graph::Node& node, const std::string& what);

/// ATen's dtype. Throws GraphError where ATen has none.
at::ScalarType scalar_type(graph::DataType type);
at::Tensor empty(const TensorType& type);  ///< on the host's heap; static types only
at::Tensor from_constant(const graph::Constant& value);
graph::Constant to_constant(const at::Tensor& value, graph::DataType type);

}  // namespace npu::ge
