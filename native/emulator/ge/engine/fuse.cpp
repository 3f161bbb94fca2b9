#include "ge/engine/fuse.h"

#include <algorithm>
#include <list>
#include <map>
#include <set>

#include "ge/engine/axes.h"
#include "ge/engine/region_body.h"

namespace npu::ge {

/// Operators that compute each element from the matching elements of their inputs, with NumPy's broadcasting.
/// The rows of the table of kernels are marked too (elementwise), but some of those broadcast in ways of
/// their own (BiasAdd, PRelu).
bool is_pointwise(const Step& step) {
    static const std::set<std::string_view> types{"Abs",           "Acos",         "Acosh",
                                                  "Add",           "AddV2",        "Addcdiv",
                                                  "Addcmul",       "Adds",         "Asin",
                                                  "Asinh",         "Atan",         "Atan2",
                                                  "Atanh",         "Axpy",         "BitwiseAnd",
                                                  "BitwiseOr",     "BitwiseXor",   "Cast",
                                                  "Ceil",          "ClipByValue",  "ClipByValueV2",
                                                  "Cos",           "Cosh",         "Digamma",
                                                  "Div",           "DivNoNan",     "Elu",
                                                  "EluGrad",       "Equal",        "Erf",
                                                  "Erfc",          "Erfinv",       "Exp",
                                                  "Expm1",         "FastGelu",     "Floor",
                                                  "FloorDiv",      "FloorMod",     "FusedMulAdd",
                                                  "Gelu",          "GeluGrad",     "GeluV2",
                                                  "Greater",       "GreaterEqual", "HardSigmoid",
                                                  "HardSwish",     "Invert",       "IsFinite",
                                                  "IsInf",         "IsNan",        "LeakyRelu",
                                                  "LeakyReluGrad", "LeftShift",    "Lerp",
                                                  "Less",          "LessEqual",    "Lgamma",
                                                  "Log",           "Log1p",        "LogicalAnd",
                                                  "LogicalNot",    "LogicalOr",    "LogicalXor",
                                                  "MaskedFill",    "Maximum",      "Minimum",
                                                  "Mish",          "Mod",          "Mul",
                                                  "MulNoNan",      "Muls",         "Neg",
                                                  "NotEqual",      "Pow",          "RealDiv",
                                                  "Reciprocal",    "Relu",         "Relu6",
                                                  "Relu6Grad",     "ReluGrad",     "RightShift",
                                                  "Rint",          "Round",        "Rsqrt",
                                                  "RsqrtGrad",     "SelectV2",     "Selu",
                                                  "Sigmoid",       "SigmoidGrad",  "Sign",
                                                  "Sin",           "Sinh",         "Softplus",
                                                  "SoftplusGrad",  "Softsign",     "Sqrt",
                                                  "SqrtGrad",      "Square",       "SquaredDifference",
                                                  "Sub",           "Swish",        "SwishGrad",
                                                  "Tan",           "Tanh",         "TanhGrad",
                                                  "Trunc",         "TruncateDiv",  "TruncateMod",
                                                  "Xdivy",         "Xlogy",        "ZerosLike",
                                                  "OnesLike"};
    return step.kind == Kind::row && step.kernel->elementwise && step.outputs.size() == 1 &&
           types.contains(step.op->name);
}

bool is_reduction(const Step& step) {
    static const std::set<std::string_view> types{"ReduceSum",  "ReduceMean", "ReduceMax",   "ReduceMin",
                                                  "ReduceProd", "ReduceSumD", "ReduceMeanD", "ReduceMaxD",
                                                  "ReduceMinD", "ReduceProdD"};
    return step.kind == Kind::row && types.contains(step.op->name) && step.outputs.size() == 1;
}

namespace {

constexpr std::size_t kLargestRegion = 64;  // CANN's AutoFuse: nodes in a fusion

using Dims = std::vector<int64_t>;

/// The dimensions that a reduction goes over. Nothing: they are not known, or there are none to name.
std::optional<std::vector<bool>> reduced_dims(const Program& program, const Step& step) {
    Dims axes;
    if (const auto named = step.attributes.find("axes"); named != step.attributes.end()) {
        const auto* list = std::get_if<Dims>(&named->second);
        if (list == nullptr) return std::nullopt;
        axes = *list;
    } else if (step.inputs.size() > 1 && step.inputs[1] >= 0 &&
               program.values[step.inputs[1]].constant.defined()) {
        const at::Tensor flat =
            program.values[step.inputs[1]].constant.reshape({-1}).to(at::kLong).contiguous();
        axes.assign(flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel());
    }
    if (axes.empty()) return std::nullopt;
    std::vector<bool> reduced(program.values[step.inputs[0]].type.dims.size());
    for (const int64_t axis : axes)
        reduced.at(axis < 0 ? axis + static_cast<int64_t>(reduced.size()) : axis) = true;
    return reduced;
}

/// How a step would join regions: where its output lies, and which of their axes become one.
struct Fit {
    Layout out;
    Axes::Pairs same;
    std::vector<int> whole;  ///< axes that it reduces
    Layout reduced;          ///< of a reduction: where its input lies
};

class Fuser {
  public:
    Fuser(Program& program, const CompileOptions& options)
        : program_(program), options_(options), readers_(readers_of(program)) {}

    void run() {
        for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) place(i);
        while (!open_.empty()) close(open_.front());
        program_.steps = std::move(done_);
    }

  private:
    using Homes = std::vector<Region*>;

    const Dims& dims(int value) const { return program_.values[value].type.dims; }
    int root(int value) const { return program_.values[value].root; }

    bool contains(const Region& region, int value) const {
        return value >= 0 && region.members.contains(root(value));
    }

    /// Regions that are open never read each other's values: a step that reads those of several makes one
    /// region of them, or closes all but its home.
    void place(int number) {
        const Step& step = program_.steps[number];
        while (step.writes_input && !open_.empty()) close(open_.front());
        Homes read;
        for (Region& region : open_)
            if (std::ranges::any_of(step.inputs, [&](int input) { return contains(region, input); }))
                read.push_back(&region);
        if (step.kind == Kind::view && read.size() == 1 && contains(*read[0], step.inputs[0]))
            return look_at(*read[0], number);
        Region* home = find_home(number, read);
        for (Region* other : read)
            if (other != home && is_open(other)) close(*other);
        if (home == nullptr && !start(number)) done_.push_back(step);
    }

    bool is_open(const Region* region) const {
        return std::ranges::any_of(open_, [&](const Region& other) { return &other == region; });
    }

    /// The step in all the regions that it reads, which become one, or in the last that takes it.
    Region* find_home(int number, const Homes& read) {
        if (read.empty() || program_.steps[number].writes_input) return nullptr;
        if (Region* home = join(number, read); home != nullptr || read.size() == 1) return home;
        for (auto region = read.rbegin(); region != read.rend(); ++region)
            if (Region* home = join(number, {*region})) return home;
        return nullptr;
    }

    Region* join(int number, const Homes& homes) {
        std::size_t steps = 1;
        for (const Region* region : homes) steps += region->steps.size();
        if (steps > kLargestRegion) return nullptr;
        const Step& step = program_.steps[number];
        std::optional<Fit> fit;
        if (is_pointwise(step)) {
            fit = fit_pointwise(step, homes);
        } else if (options_.fuse_reductions && is_reduction(step) && contains(*homes[0], step.inputs[0])) {
            const auto known = layouts_.find(step.inputs[0]);
            if (known != layouts_.end()) fit = fit_reduction(step, axes_.now(known->second));
        }
        if (!fit || !unite(*fit, homes)) return nullptr;
        add(*homes[0], number, *fit);
        return homes[0];
    }

    void add(Region& region, int number, const Fit& fit) {
        const int output = program_.steps[number].outputs[0];
        region.steps.push_back(number);
        region.members.insert(output);
        layouts_[output] = fit.out;
        if (!fit.reduced.empty()) region.inputs_of_reductions[number] = fit.reduced;
    }

    /// A region of the step alone. One element is not worth it.
    bool start(int number) {
        const Step& step = program_.steps[number];
        if (step.writes_input) return false;
        const bool pointwise = is_pointwise(step);
        if (!pointwise && !(options_.fuse_reductions && is_reduction(step) && step.inputs[0] >= 0))
            return false;
        const int whole = pointwise ? step.outputs[0] : step.inputs[0];
        if (program_.values[whole].type.elements() <= 1) return false;
        Region region;
        Layout layout;
        for (const int64_t size : dims(whole)) {
            layout.emplace_back();
            if (size == 1) continue;
            layout.back().push_back(axes_.add(size));
            region.axes.push_back(layout.back().back());
        }
        std::optional<Fit> fit = Fit{layout, {}, {}, {}};
        if (!pointwise) fit = fit_reduction(step, layout);
        if (!fit || !unite(*fit, {&region})) return false;
        add(region, number, *fit);
        open_.push_back(std::move(region));
        return true;
    }

    /// A view of a member: no step of the region, which reads and writes along other dimensions then.
    void look_at(Region& region, int number) {
        const Step& step = program_.steps[number];
        region.views.push_back(number);
        for (const int output : step.outputs)
            if (auto layout = layout_of_view(output)) layouts_[output] = *std::move(layout);
    }

    /// Where a view of a member lies, from its strides. Nothing: it shows a part of it only, or other bits.
    std::optional<Layout> layout_of_view(int number) {
        const Value &view = program_.values[number], &member = program_.values[view.root];
        if (view.offset != 0 || view.type.dtype != member.type.dtype) return std::nullopt;
        const auto flat = [&] {
            std::vector<int> axes;
            for (const auto& each : axes_.now(layouts_.at(view.root)))
                axes.insert(axes.end(), each.begin(), each.end());
            return axes;
        };
        for (std::size_t i = 0; i < view.strides.size(); ++i)
            if (view.type.dims[i] != 1 && view.strides[i] != 0 &&
                (!axes_.cut(flat(), view.strides[i]) ||
                 !axes_.cut(flat(), view.strides[i] * view.type.dims[i])))
                return std::nullopt;
        Layout layout;
        std::vector<int> shown;
        const auto axes = flat();
        for (std::size_t i = 0; i < view.strides.size(); ++i) {
            layout.emplace_back();
            if (view.type.dims[i] == 1 || view.strides[i] == 0) continue;
            int64_t stride = member.type.elements();
            for (const int axis : axes) {
                stride /= axes_.size(axis);
                if (stride >= view.strides[i] && stride < view.strides[i] * view.type.dims[i])
                    layout.back().push_back(axis);
            }
            shown.insert(shown.end(), layout.back().begin(), layout.back().end());
        }
        if (!options_.fuse_movement && shown != axes) return std::nullopt;
        return std::ranges::is_permutation(shown, axes) ? std::optional(std::move(layout)) : std::nullopt;
    }

    std::optional<Fit> fit_pointwise(const Step& step, const Homes& homes) {
        const Dims& out = dims(step.outputs[0]);
        Fit fit{Layout(out.size()), {}, {}, {}};
        for (const int input : step.inputs) {
            if (std::ranges::none_of(homes, [&](Region* home) { return contains(*home, input); })) continue;
            const auto known = layouts_.find(input);
            if (known == layouts_.end()) return std::nullopt;
            const std::size_t shift = out.size() - dims(input).size();
            for (std::size_t i = 0; i < known->second.size(); ++i)
                if (!known->second[i].empty() && !agree(fit, shift + i, known->second[i]))
                    return std::nullopt;
        }
        return fill(fit, out, *homes[0]) ? std::optional(std::move(fit)) : std::nullopt;
    }

    /// Puts dimension `dim` of the output on these axes.
    bool agree(Fit& fit, std::size_t dim, const std::vector<int>& axes) {
        if (fit.out[dim].empty()) {
            fit.out[dim] = axes;
            return true;
        }
        const auto pairs = axes_.match(fit.out[dim], axes);
        if (pairs) fit.same.insert(fit.same.end(), pairs->begin(), pairs->end());
        return pairs.has_value();
    }

    /// Puts dimensions that no member tells about on the region's axes in row-major order.
    bool fill(Fit& fit, const Dims& out, const Region& region) {
        bool known = true;
        for (std::size_t i = 0; i < out.size(); ++i) known = known && (out[i] == 1 || !fit.out[i].empty());
        if (known) return true;
        int64_t inner = 1;
        for (std::size_t i = out.size(); i-- > 0; inner *= out[i])
            if (!axes_.cut(region.axes, inner)) return false;
        const auto domain = axes_.now(region.axes);
        int64_t all = 1;
        for (const int axis : domain) all *= axes_.size(axis);
        if (all != inner) return false;
        auto axis = domain.begin();
        for (std::size_t i = 0; i < out.size(); ++i) {
            std::vector<int> taken;
            for (int64_t size = 1; size < out[i]; size *= axes_.size(*axis++)) taken.push_back(*axis);
            if (!taken.empty() && !agree(fit, i, taken)) return false;
        }
        return true;
    }

    std::optional<Fit> fit_reduction(const Step& step, const Layout& input) const {
        const auto reduced = reduced_dims(program_, step);
        if (!reduced) return std::nullopt;
        const bool kept = dims(step.outputs[0]).size() == input.size();
        Fit fit;
        fit.reduced = input;
        for (std::size_t i = 0; i < input.size(); ++i) {
            if ((*reduced)[i]) fit.whole.insert(fit.whole.end(), input[i].begin(), input[i].end());
            if (!(*reduced)[i] || kept) fit.out.push_back((*reduced)[i] ? std::vector<int>() : input[i]);
        }
        return fit.whole.empty() ? std::nullopt : std::optional(std::move(fit));
    }

    /// Makes one region of the homes, where tiles can be cut so that all their steps and the new one run on
    /// the same: they have the same axes, and those that some value lacks are whole and come last.
    bool unite(Fit& fit, const Homes& homes) {
        const auto after = [&](std::vector<int> axes) {  // the merge
            axes = axes_.now(axes);
            for (const auto& [kept, gone] : fit.same) std::ranges::replace(axes, gone, kept);
            return axes;
        };
        const std::vector<int> domain = after(homes[0]->axes);
        const std::set<int> all(domain.begin(), domain.end());
        std::set<int> whole;
        for (const Region* home : homes) {
            const auto axes = after(home->axes);
            if (axes.size() != all.size() || std::set<int>(axes.begin(), axes.end()) != all) return false;
            for (const int axis : after(home->whole)) whole.insert(axis);
        }
        for (const int axis : after(fit.whole)) whole.insert(axis);
        std::vector<int> shown;
        for (const auto& axes : fit.out)
            for (const int axis : after(axes)) shown.push_back(axis);
        const std::set<int> distinct(shown.begin(), shown.end());
        if (distinct.size() != shown.size()) return false;
        for (const int axis : domain)
            if (!distinct.contains(axis) && !whole.contains(axis)) return false;
        if (!ends_with(domain, whole) || !reduces_last(fit, domain, after)) return false;
        int64_t tiles = 1;
        for (const int axis : domain) tiles *= whole.contains(axis) ? 1 : axes_.size(axis);
        if (tiles == 1) return false;
        axes_.merge(fit.same);
        Region& home = *homes[0];
        home.axes = domain;
        home.whole.assign(whole.begin(), whole.end());
        for (Region* other : homes)
            if (other != &home) absorb(home, *other);
        return true;
    }

    static bool ends_with(const std::vector<int>& domain, const std::set<int>& last) {
        return std::all_of(domain.end() - static_cast<int64_t>(last.size()), domain.end(),
                           [&](int axis) { return last.contains(axis); });
    }

    /// Whether a tile of a reduction's input has what is reduced in one piece.
    template <class F>
    static bool reduces_last(const Fit& fit, const std::vector<int>& domain, const F& after) {
        std::set<int> reduced, input;
        for (const int axis : after(fit.whole)) reduced.insert(axis);
        for (const auto& axes : fit.reduced)
            for (const int axis : after(axes)) input.insert(axis);
        std::vector<int> present;
        for (const int axis : domain)
            if (input.contains(axis)) present.push_back(axis);
        return ends_with(present, reduced);
    }

    void absorb(Region& home, Region& other) {
        home.steps.insert(home.steps.end(), other.steps.begin(), other.steps.end());
        home.views.insert(home.views.end(), other.views.begin(), other.views.end());
        std::ranges::sort(home.steps);
        std::ranges::sort(home.views);
        home.members.merge(other.members);
        home.inputs_of_reductions.merge(other.inputs_of_reductions);
        open_.remove_if([&](const Region& each) { return &each == &other; });
    }

    void close(Region& region) {
        if (region.steps.size() == 1) {
            done_.push_back(program_.steps[region.steps.front()]);
        } else {
            done_.push_back(region_step(program_, region, axes_, layouts_, readers_));
        }
        for (const int number : region.views) done_.push_back(program_.steps[number]);
        open_.remove_if([&](const Region& other) { return &other == &region; });
    }

    Program& program_;
    const CompileOptions& options_;
    const Readers readers_;
    Axes axes_;
    std::map<int, Layout> layouts_;  ///< of members and of views on them
    std::list<Region> open_;
    std::vector<Step> done_;
};

}  // namespace

void fuse(Program& program, const CompileOptions& options) { Fuser(program, options).run(); }

}  // namespace npu::ge
