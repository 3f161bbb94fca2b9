#include "ge/engine/fuse.h"

#include <algorithm>
#include <list>
#include <set>

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

namespace {

constexpr std::size_t kLargestRegion = 64;  // CANN's AutoFuse: nodes in a fusion

/// A reduction over the last dimensions that keeps them as ones: each row of a tile is reduced on its own.
struct Reduction {
    std::size_t first_axis = 0;
};

std::optional<Reduction> row_reduction(const Program& program, const Step& step) {
    static const std::set<std::string_view> types{"ReduceSum",  "ReduceMean", "ReduceMax",   "ReduceMin",
                                                  "ReduceProd", "ReduceSumD", "ReduceMeanD", "ReduceMaxD",
                                                  "ReduceMinD", "ReduceProdD"};
    if (step.kind != Kind::row || !types.contains(step.op->name) || step.outputs.size() != 1)
        return std::nullopt;
    const auto& in = program.values[step.inputs.at(0)].type.dims;
    const auto& out = program.values[step.outputs[0]].type.dims;
    if (in.size() != out.size() || in.empty()) return std::nullopt;
    std::size_t first = in.size();
    while (first > 0 && out[first - 1] == 1) --first;
    for (std::size_t i = 0; i < first; ++i)
        if (in[i] != out[i]) return std::nullopt;
    return first < in.size() && first > 0 ? std::optional(Reduction{first}) : std::nullopt;
}

/// Steps that will run together. All outputs agree in their first `rows` dimensions; the rest is the domain's
/// or ones.
struct Region {
    std::vector<int> steps;
    std::vector<int64_t> domain;
    std::size_t rows = 0;   ///< dimensions that tiles may cut; the whole rank without reductions
    std::set<int> members;  ///< values that its steps make
};

class Fuser {
  public:
    Fuser(Program& program, const CompileOptions& options) : program_(program), options_(options) {}

    void run() {
        for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) place(i);
        while (!open_.empty()) close(open_.front());
        program_.steps = std::move(done_);
    }

  private:
    const std::vector<int64_t>& dims(int value) const { return program_.values[value].type.dims; }

    void place(int number) {
        const Step& step = program_.steps[number];
        const auto reduction = options_.fuse_reductions ? row_reduction(program_, step) : std::nullopt;
        Region* home = nullptr;
        if (is_pointwise(step) || reduction) home = find_home(step, reduction);
        if (step.writes_input || step.kind == Kind::collective) home = nullptr;
        close_others(step, home);
        if (home != nullptr) {
            join(*home, number, reduction);
        } else if (is_pointwise(step) && !dims(step.outputs[0]).empty()) {
            open_.push_back({});
            open_.back().domain = dims(step.outputs[0]);
            open_.back().rows = open_.back().domain.size();
            join(open_.back(), number, reduction);
        } else {
            if (step.writes_input)
                while (!open_.empty()) close(open_.front());
            done_.push_back(step);
        }
    }

    /// An open region that takes the step: the last one opened that fits.
    Region* find_home(const Step& step, const std::optional<Reduction>& reduction) {
        for (auto region = open_.rbegin(); region != open_.rend(); ++region) {
            if (region->steps.size() < kLargestRegion && fits(*region, step, reduction)) return &*region;
        }
        return nullptr;
    }

    bool reads(const Region& region, const Step& step) const {
        return std::ranges::any_of(step.inputs, [&](int input) {
            return input >= 0 &&
                   (region.members.contains(input) || region.members.contains(program_.values[input].root));
        });
    }

    bool fits(const Region& region, const Step& step, const std::optional<Reduction>& reduction) const {
        if (!reads(region, step)) return false;  // neighbours that share nothing gain nothing
        for (const int input : step.inputs) {    // a view of a member is not made inside a tile
            if (input >= 0 && !region.members.contains(input) &&
                region.members.contains(program_.values[input].root))
                return false;
        }
        const auto& out = dims(step.outputs[0]);
        if (reduction) {
            if (dims(step.inputs[0]) != region.domain || !region.members.contains(step.inputs[0]))
                return false;
            return rows_allow(region, std::min(region.rows, reduction->first_axis));
        }
        if (out == region.domain) return true;
        if (out.size() != region.domain.size() || region.rows == region.domain.size()) return false;
        for (std::size_t i = 0; i < out.size(); ++i)  // a row's worth of scalars
            if (out[i] != (i < region.rows ? region.domain[i] : 1)) return false;
        return true;
    }

    /// Whether tiles that cut only the first `rows` dimensions are still worth while.
    static bool rows_allow(const Region& region, std::size_t rows) {
        int64_t cut = 1;
        for (std::size_t i = 0; i < rows; ++i) cut *= region.domain[i];
        return cut > 1;
    }

    void join(Region& region, int number, const std::optional<Reduction>& reduction) {
        if (reduction) region.rows = std::min(region.rows, reduction->first_axis);
        region.steps.push_back(number);
        region.members.insert(program_.steps[number].outputs[0]);
    }

    /// What the step reads must be computed before it.
    void close_others(const Step& step, const Region* home) {
        for (bool again = true; again;) {
            again = false;
            for (Region& region : open_) {
                if (&region == home || !reads(region, step)) continue;
                close(region);
                again = true;
                break;
            }
        }
    }

    void close(Region& region) {
        const auto at = std::ranges::find_if(open_, [&](const Region& other) { return &other == &region; });
        if (region.steps.size() == 1) {
            done_.push_back(program_.steps[region.steps.front()]);
        } else {
            done_.push_back(make_step(region));
        }
        open_.erase(at);
    }

    /// Values that somebody outside needs.
    bool escapes(const Region& region, int value) const {
        if (std::ranges::count(program_.results, value) != 0) return true;
        for (std::size_t v = 0; v < program_.values.size(); ++v)
            if (static_cast<int>(v) != value && program_.values[v].root == value) return true;
        for (std::size_t i = 0; i < program_.steps.size(); ++i) {
            if (std::ranges::count(region.steps, static_cast<int>(i)) != 0) continue;
            if (std::ranges::count(program_.steps[i].inputs, value) != 0) return true;
        }
        return false;
    }

    Step make_step(const Region& region) const {
        Step fused;
        fused.kind = Kind::fused;
        auto body = std::make_shared<Program>();
        for (const int number : region.steps) {
            const Step& step = program_.steps[number];
            fused.node += (fused.node.empty() ? "" : "+") + step.node;
            body->steps.push_back(step);
            for (const int input : step.inputs) {
                if (input >= 0 && !region.members.contains(input) &&
                    std::ranges::count(fused.inputs, input) == 0)
                    fused.inputs.push_back(input);
            }
            if (escapes(region, step.outputs[0])) fused.outputs.push_back(step.outputs[0]);
        }
        fused.domain = region.domain;
        fused.rows = region.rows;
        fused.bodies = {std::move(body)};
        return fused;
    }

    Program& program_;
    const CompileOptions& options_;
    std::list<Region> open_;
    std::vector<Step> done_;
};

}  // namespace

void fuse(Program& program, const CompileOptions& options) { Fuser(program, options).run(); }

}  // namespace npu::ge
