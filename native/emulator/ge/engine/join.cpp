#include "ge/engine/join.h"

#include <algorithm>
#include <set>
#include <span>

namespace npu::ge {
namespace {

std::span<const int> parts_of(const Step& step) {
    const std::span all(step.inputs);
    if (step.op->name == "ConcatV2") return all.first(all.size() - 1);
    if (step.op->name == "Concat") return all.subspan(1);
    if (step.op->name == "ConcatV2D" || step.op->name == "ConcatD" || step.op->name == "Pack") return all;
    return {};
}

/// Whether the parts lie one after the other in the result. A dimension before the one along which they are
/// joined has size 1 then: where the elements of a part are, its own size tells.
bool one_after_the_other(const Program& program, std::span<const int> parts, const Value& result) {
    for (std::size_t dim = 0; dim < result.type.dims.size(); ++dim) {
        const bool joined = std::ranges::any_of(parts, [&](int part) {
            const auto& dims = program.values[part].type.dims;
            return dims.size() != result.type.dims.size() || dims[dim] != result.type.dims[dim];
        });
        if (joined) return true;
        if (result.type.dims[dim] != 1) return false;
    }
    return false;  // one part alone, or empty ones: nothing to gain
}

class Joiner {
  public:
    explicit Joiner(Program& program) : program_(program) {
        for (const Step& step : program_.steps)
            if (step.writes_input) kept_.insert(program_.values[step.outputs[0]].root);
    }

    void run() {
        for (Step& step : program_.steps) {
            if (step.kind != Kind::row || step.outputs.size() != 1) continue;
            const auto parts = parts_of(step);
            const int result = step.outputs[0];
            if (!parts.empty() && one_after_the_other(program_, parts, program_.values[result]) &&
                own_memory(parts, result))
                move(step, parts, result);
        }
    }

  private:
    bool own_memory(std::span<const int> parts, int result) const {
        if (kept_.contains(result)) return false;
        std::set<int> roots;
        for (const int part : parts) {
            const Value& value = program_.values[part];
            const Value& root = program_.values[value.root];
            const bool whole = value.contiguous() && value.type.dtype == root.type.dtype &&
                               value.type.elements() == root.type.elements();
            if (root.place != Place::temporary || root.constant.defined() || !whole ||
                kept_.contains(value.root) || is_result(value.root) || !roots.insert(value.root).second)
                return false;
        }
        return true;
    }

    /// A part that is handed out is computed in the memory of the one who asked for it.
    bool is_result(int root) const {
        return std::ranges::any_of(program_.results,
                                   [&](int result) { return program_.values[result].root == root; });
    }

    void move(Step& step, std::span<const int> parts, int result) {
        int64_t offset = 0;
        for (const int part : parts) {
            const int root = program_.values[part].root;
            for (Value& value : program_.values) {
                if (value.root != root) continue;
                value.root = result;
                value.offset += offset;
            }
            offset += program_.values[part].type.elements();
        }
        step.kind = Kind::view;
    }

    Program& program_;
    std::set<int> kept_;  ///< roots that are written again in place
};

}  // namespace

void join(Program& program) {
    if (program.is_static) Joiner(program).run();
}

}  // namespace npu::ge
