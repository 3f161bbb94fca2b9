#include "ge/engine/split_rules.h"

#include <algorithm>
#include <map>

#include "ge/engine/fuse.h"
#include "ge/engine/views.h"

namespace npu::ge {
namespace {

using Dims = std::vector<int64_t>;
using Cuts = std::optional<std::vector<int>>;

/// A step and the dimension along which its outputs are cut.
struct Question {
    const Program& program;
    const Step& step;
    int dim;

    const Dims& in(std::size_t i) const { return program.values[step.inputs.at(i)].type.dims; }
    const Dims& out(std::size_t i = 0) const { return program.values[step.outputs.at(i)].type.dims; }
    bool given(std::size_t i) const { return i < step.inputs.size() && step.inputs[i] >= 0; }
    std::vector<int> all_whole() const { return std::vector<int>(step.inputs.size(), kWhole); }

    /// Input `index` cut along `along`, the others whole.
    std::vector<int> only(std::size_t index, int along) const {
        std::vector<int> cuts = all_whole();
        cuts[index] = along;
        return cuts;
    }

    template <class T>
    const T* attribute(const char* name) const {
        const auto found = step.attributes.find(name);
        return found == step.attributes.end() ? nullptr : std::get_if<T>(&found->second);
    }
    bool flag(const char* name) const {
        const bool* value = attribute<bool>(name);
        return value != nullptr && *value;
    }

    /// The numbers of a constant input, or of the attribute of the operator's D form.
    std::optional<Dims> numbers(std::size_t index, const char* name) const {
        if (const auto* list = attribute<Dims>(name)) return *list;
        if (const auto* number = attribute<int64_t>(name)) return Dims{*number};
        if (!given(index) || !program.values[step.inputs[index]].constant.defined()) return std::nullopt;
        const at::Tensor flat =
            program.values[step.inputs[index]].constant.reshape({-1}).to(at::kLong).contiguous();
        return Dims(flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel());
    }
};

using Rule = Cuts (*)(const Question&);

int64_t wrapped(int64_t dim, std::size_t rank) { return dim < 0 ? dim + static_cast<int64_t>(rank) : dim; }

/// The dimension of an input that meets dimension `dim` of a result of `out` by NumPy's broadcasting.
int aligned(const Dims& in, const Dims& out, int dim) {
    const int own = dim - static_cast<int>(out.size()) + static_cast<int>(in.size());
    return own < 0 || (in[own] == 1 && out[dim] != 1) ? kWhole : own;
}

Cuts pointwise(const Question& ask) {
    std::vector<int> cuts = ask.all_whole();
    for (std::size_t i = 0; i < cuts.size(); ++i)
        if (ask.given(i)) cuts[i] = aligned(ask.in(i), ask.out(), ask.dim);
    return cuts;
}

/// Rows of a product need the same rows of its left operand.
Cuts product(const Question& ask) {
    if (ask.in(0).size() != 2 || ask.in(1).size() != 2 || ask.dim != 0 || ask.given(3)) return std::nullopt;
    if (ask.given(2) && ask.in(2).size() != 1) return std::nullopt;
    return ask.only(0, ask.flag("transpose_x1") ? 1 : 0);
}

Cuts batched_product(const Question& ask) {
    const int rank = static_cast<int>(ask.out().size());
    if (rank < 3 || ask.given(2) || ask.given(3)) return std::nullopt;
    const Dims &left = ask.in(0), &right = ask.in(1);
    if (left.size() < 2 || right.size() < 2 || ask.dim == rank - 1) return std::nullopt;
    if (ask.dim == rank - 2) return ask.only(0, static_cast<int>(left.size()) - (ask.flag("adj_x1") ? 1 : 2));
    std::vector<int> cuts = ask.all_whole();
    cuts[0] = aligned(left, ask.out(), ask.dim);
    cuts[1] = aligned(right, ask.out(), ask.dim);
    return cuts;
}

Cuts softmax(const Question& ask) {
    const auto* axes = ask.attribute<Dims>("axes");
    if (axes == nullptr) return std::nullopt;
    const Dims taken = axes->empty() ? Dims{-1} : *axes;
    for (const int64_t axis : taken)
        if (wrapped(axis, ask.out().size()) == ask.dim) return std::nullopt;
    return ask.only(0, ask.dim);
}

Cuts reduction(const Question& ask) {
    const auto axes = ask.numbers(1, "axes");
    if (!axes || axes->empty()) return std::nullopt;
    std::vector<bool> reduced(ask.in(0).size());
    for (const int64_t axis : *axes) reduced.at(wrapped(axis, reduced.size())) = true;
    if (ask.flag("keep_dims")) return reduced[ask.dim] ? std::nullopt : Cuts(ask.only(0, ask.dim));
    int left = ask.dim;
    for (std::size_t i = 0; i < reduced.size(); ++i)
        if (!reduced[i] && left-- == 0) return ask.only(0, static_cast<int>(i));
    return std::nullopt;
}

Cuts concat(const Question& ask) {
    const auto axis = ask.numbers(ask.step.inputs.size() - 1, "concat_dim");
    if (!axis || axis->size() != 1 || wrapped(axis->front(), ask.out().size()) == ask.dim)
        return std::nullopt;
    std::vector<int> cuts(ask.step.inputs.size(), ask.dim);
    if (ask.attribute<int64_t>("concat_dim") == nullptr) cuts.back() = kWhole;
    return cuts;
}

int64_t before(const Dims& dims, std::size_t dim) {
    int64_t count = 1;
    for (std::size_t i = 0; i < dim; ++i) count *= dims[i];
    return count;
}

/// Equal pieces of the same elements in row-major order: as many elements lie before both dimensions, so as
/// many lie in them and behind.
Cuts reshape(const Question& ask) {
    const Dims &in = ask.in(0), &out = ask.out();
    for (std::size_t i = 0; i < in.size(); ++i)
        if (in[i] != 1 && before(in, i) == before(out, ask.dim)) return ask.only(0, static_cast<int>(i));
    return std::nullopt;
}

Cuts transpose(const Question& ask) {
    const auto perm = ask.numbers(1, "perm");
    if (!perm || perm->size() != ask.out().size()) return std::nullopt;
    return ask.only(0, static_cast<int>(wrapped(perm->at(ask.dim), perm->size())));
}

Cuts broadcast(const Question& ask) { return ask.only(0, aligned(ask.in(0), ask.out(), ask.dim)); }

/// Slices and splits along other dimensions.
Cuts untouched(const Question& ask) {
    for (std::size_t i = 0; i < ask.step.outputs.size(); ++i)
        if (ask.out(i)[ask.dim] != ask.in(0).at(ask.dim)) return std::nullopt;
    return ask.only(0, ask.dim);
}

const std::map<std::string_view, Rule>& rules() {
    static const std::map<std::string_view, Rule> table{
        {"MatMul", product},
        {"MatMulV2", product},
        {"MatMulV3", product},
        {"BatchMatMul", batched_product},
        {"BatchMatMulV2", batched_product},
        {"BatchMatMulV3", batched_product},
        {"SoftmaxV2", softmax},
        {"LogSoftmaxV2", softmax},
        {"ReduceSum", reduction},
        {"ReduceMean", reduction},
        {"ReduceMax", reduction},
        {"ReduceMin", reduction},
        {"ReduceSumD", reduction},
        {"ReduceMeanD", reduction},
        {"ReduceMaxD", reduction},
        {"ReduceMinD", reduction},
        {"ConcatV2", concat},
        {"ConcatV2D", concat},
        {"ConcatD", concat},
        {"Transpose", transpose},
        {"TransposeD", transpose},
        {"BroadcastTo", broadcast},
        {"BroadcastToD", broadcast},
        {"Slice", untouched},
        {"SliceD", untouched},
        {"SplitV", untouched},
        {"SplitVD", untouched},
        {"SplitD", untouched},
    };
    return table;
}

Rule rule_of(const Step& step) {
    if (step.op == nullptr || step.writes_input) return nullptr;
    if (is_pointwise(step)) return pointwise;
    if (only_reshapes(step.op->name)) return reshape;
    const auto found = rules().find(step.op->name);
    if (found == rules().end()) return nullptr;
    const Rule rule = found->second;
    // The rows read the whole's numbers; a view of a piece is made from the piece's type.
    const bool of_views = rule == transpose || rule == broadcast || rule == untouched;
    return of_views && step.kind != Kind::view ? nullptr : rule;
}

}  // namespace

std::optional<std::vector<int>> cut_inputs(const Program& program, const Step& step, int dim) {
    const Rule rule = step.kind == Kind::row || step.kind == Kind::view ? rule_of(step) : nullptr;
    return rule == nullptr ? std::nullopt : rule({program, step, dim});
}

int64_t multiplications(const Program& program, const Step& step) {
    const Rule rule = rule_of(step);
    if (rule != product && rule != batched_product) return 0;
    const Question ask{program, step, 0};
    const Dims& left = ask.in(0);
    const bool flipped = ask.flag("transpose_x1") || ask.flag("adj_x1");
    const int64_t depth = left.size() < 2 ? 1 : left[left.size() - (flipped ? 2 : 1)];
    return program.values[step.outputs[0]].type.elements() * depth;
}

}  // namespace npu::ge
