#include "ge/engine/placement.h"

#include <ATen/TensorUtils.h>

#include <algorithm>
#include <map>
#include <set>

#include "ge/engine/fold.h"
#include "ge/engine/fuse.h"

namespace npu::ge {
namespace {

using Sizes = std::vector<int64_t>;

/// Memory in the order of a value that was row-major, as it lies now.
struct Spread {
    int root;
    Sizes sizes, strides;  ///< in elements of `root`
    int64_t offset = 0;
};

/// A view of the row-major value as a view of the place. Nothing: its dimensions run over several that do not
/// follow each other.
std::optional<Value> moved(const Value& view, const Spread& place) {
    Sizes sizes, strides;  // of dimensions that cannot be joined
    for (std::size_t i = 0; i < place.sizes.size(); ++i) {
        if (place.sizes[i] == 1) continue;
        if (!sizes.empty() && strides.back() == place.strides[i] * place.sizes[i]) {
            sizes.back() *= place.sizes[i];
            strides.back() = place.strides[i];
        } else {
            sizes.push_back(place.sizes[i]);
            strides.push_back(place.strides[i]);
        }
    }
    Value found = view;
    found.root = place.root;
    found.offset = place.offset;
    Sizes last(sizes.size(), 0);  // index that the view reaches along each
    int64_t rest = view.offset, inner = 1;
    for (std::size_t i = sizes.size(); i-- > 0; inner *= sizes[i]) {
        last[i] = rest % sizes[i];
        rest /= sizes[i];
        found.offset += last[i] * strides[i];
    }
    for (std::size_t dim = 0; dim < view.strides.size(); ++dim) {
        if (view.type.dims[dim] == 1 || view.strides[dim] == 0) continue;
        inner = 1;
        std::size_t at = sizes.size();
        while (at-- > 0 && view.strides[dim] >= inner * sizes[at]) inner *= sizes[at];
        if (at >= sizes.size() || view.strides[dim] % inner != 0) return std::nullopt;
        const int64_t step = view.strides[dim] / inner;
        last[at] += step * (view.type.dims[dim] - 1);
        found.strides[dim] = step * strides[at];
    }
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (last[i] >= sizes[i]) return std::nullopt;
    return found;
}

/// What a concatenation joins, and along which dimension. Nothing: it is none, or computes where.
struct Joint {
    std::vector<int> parts;
    int64_t dim = 0;
    bool stacks = false;  ///< the parts lack the dimension
};

std::optional<Joint> joint_of(const Program& program, const Step& step) {
    if (step.kind != Kind::row) return std::nullopt;
    const std::string_view type = step.op->name;
    const bool last = type == "ConcatV2", first = type == "Concat", stacks = type == "Pack";
    if (!last && !first && !stacks && type != "ConcatD" && type != "ConcatV2D") return std::nullopt;
    Joint joint{step.inputs, 0, stacks};
    if (last || first) {
        const int number = last ? step.inputs.back() : step.inputs.front();
        if (number < 0 || !program.values[number].constant.defined()) return std::nullopt;
        joint.dim = program.values[number].constant.reshape({-1})[0].item<int64_t>();
        joint.parts.erase(last ? joint.parts.end() - 1 : joint.parts.begin());
    } else {
        joint.dim = std::get<int64_t>(step.attributes.at(stacks ? "axis" : "concat_dim"));
    }
    if (std::ranges::count(joint.parts, -1) != 0) return std::nullopt;
    if (joint.dim < 0) joint.dim += static_cast<int64_t>(program.values[step.outputs[0]].type.dims.size());
    return joint;
}

class Placer {
  public:
    explicit Placer(Program& program) : program_(program) {
        for (std::size_t i = 0; i < program_.values.size(); ++i)
            views_[value(static_cast<int>(i)).root].push_back(static_cast<int>(i));
        for (const Step& step : program_.steps) {
            if (step.writes_input) continue;
            if (step.kind == Kind::fused || is_pointwise(step))
                makes_.insert(step.outputs.begin(), step.outputs.end());
            else if (step.kind == Kind::row || step.kind == Kind::split)
                makes_dense_.insert(step.outputs.begin(), step.outputs.end());
        }
    }

    /// From the last to the first: what is joined and joined again is placed in the end.
    void join() {
        std::vector<Step> steps;
        for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step) {
            std::vector<Step> copies;
            if (join(*step, copies)) {
                std::ranges::move(copies, std::back_inserter(steps));
            } else {
                steps.push_back(std::move(*step));
            }
        }
        program_.steps.assign(std::make_move_iterator(steps.rbegin()), std::make_move_iterator(steps.rend()));
    }

    void transpose() {
        std::map<int, std::set<int>> read;  // by root
        for (const Step& step : program_.steps)
            if (step.kind != Kind::view)
                for (const int input : step.inputs)
                    if (input >= 0) read[value(input).root].insert(input);
        for (const int result : program_.results) read[value(result).root].insert(result);
        for (const auto& [root, values] : read)
            if (can_move(root, false)) transpose(root, values);
    }

  private:
    const Value& value(int number) const { return program_.values[number]; }

    bool can_move(int number, bool dense) const {
        return value(number).root == number && value(number).place == Place::temporary &&
               (makes_.contains(number) || (dense && makes_dense_.contains(number))) &&
               value(number).type.elements() > 0;
    }

    /// Moves a value that owns memory, and all views on it.
    bool move(int root, const Spread& place) {
        std::vector<Value> found;
        for (const int number : views_[root]) {
            auto view = moved(value(number), place);
            if (!view) return false;
            found.push_back(*std::move(view));
        }
        const std::vector<int> numbers = std::exchange(views_[root], {});
        for (std::size_t i = 0; i < found.size(); ++i) program_.values[numbers[i]] = std::move(found[i]);
        auto& views = views_[place.root];
        views.insert(views.end(), numbers.begin(), numbers.end());
        return true;
    }

    bool join(const Step& step, std::vector<Step>& copies) {
        const auto joint = joint_of(program_, step);
        if (!joint) return false;
        const Value whole = value(step.outputs[0]);
        if (value(whole.root).place != Place::temporary) return false;
        std::vector<std::pair<int, Value>> left;  // parts that have to be copied, and where to
        int64_t start = 0;
        bool any = false;
        for (const int part : joint->parts) {
            Value slice = whole;
            slice.offset += start * whole.strides[joint->dim];
            slice.type.dims = value(part).type.dims;
            if (joint->stacks) slice.strides.erase(slice.strides.begin() + joint->dim);
            start += joint->stacks ? 1 : slice.type.dims[joint->dim];
            if (slice.type.elements() == 0) continue;
            if (move_part(part, slice))
                any = true;
            else
                left.emplace_back(part, slice);
        }
        if (!any) return false;
        for (const auto& [part, slice] : left) copies.push_back(copy(step, part, slice));
        return true;
    }

    bool move_part(int part, const Value& slice) {
        const int root = value(part).root;
        Value dense = slice;
        dense.offset = 0;
        if (!can_move(root, dense.contiguous()) || root == slice.root || !value(part).contiguous() ||
            value(part).type.dtype != value(root).type.dtype ||
            value(part).type.elements() != value(root).type.elements())
            return false;
        const auto strides = at::detail::computeStride(slice.type.dims, slice.strides, value(root).type.dims);
        return strides && move(root, {slice.root, value(root).type.dims, *strides, slice.offset});
    }

    Step copy(const Step& join, int part, const Value& slice) {
        Step step;
        step.node = join.node;
        step.op = graph::find_operator("TensorMove");
        step.inputs = {part};
        bind_row(step);
        step.outputs = {add_value(program_, slice)};
        views_[slice.root].push_back(step.outputs[0]);
        return step;
    }

    /// Lets the memory have the order of a view, if nobody reads it in another.
    void transpose(int root, const std::set<int>& read) {
        const Value view = value(*read.begin());
        if (view.contiguous() || view.offset != 0 || view.type.dtype != value(root).type.dtype ||
            view.type.elements() != value(root).type.elements())
            return;
        for (const int number : read)
            if (value(number).strides != view.strides || value(number).type.dims != view.type.dims) return;
        Value dense{view.type};
        const Value& placed = program_.values[add_value(program_, std::move(dense))];
        const int number = static_cast<int>(program_.values.size()) - 1;
        const auto strides = strides_under(value(root), view, placed.strides);
        if (strides) move(root, {number, value(root).type.dims, *strides});
    }

    /// The strides of `owner`, which is row-major, when `view` of it has the strides `placed`.
    static std::optional<Sizes> strides_under(const Value& owner, const Value& view, const Sizes& placed) {
        Sizes strides(owner.strides.size(), 0);
        for (std::size_t i = 0; i < strides.size(); ++i) {
            const int64_t size = owner.type.dims[i], first = owner.strides[i];
            if (size == 1) continue;
            for (std::size_t k = 0; k < placed.size(); ++k) {
                const int64_t step = view.strides[k];
                if (view.type.dims[k] != 1 && step != 0 && first % step == 0 &&
                    first * size <= step * view.type.dims[k])
                    strides[i] = first / step * placed[k];
            }
            if (strides[i] == 0) return std::nullopt;
        }
        return strides;
    }

    Program& program_;
    std::map<int, std::vector<int>> views_;  ///< by root
    std::set<int> makes_;                    ///< outputs of steps that write anywhere
    std::set<int> makes_dense_;              ///< outputs of steps that write where there are no gaps
};

}  // namespace

void place_outputs(Program& program, bool transposes) {
    if (!program.is_static) return;
    Placer placer(program);
    placer.join();
    if (transposes) placer.transpose();
}

}  // namespace npu::ge
