#include "ge/engine/plan.h"

#include <algorithm>
#include <limits>
#include <span>

namespace npu::ge {
namespace {

constexpr std::size_t kAlignment = 512;  // CANN's for device memory

std::size_t bytes(const TensorType& type) {
    return static_cast<std::size_t>(type.elements()) * graph::element_size(type.dtype);
}

/// Temporaries that share one piece of memory, one after the other.
struct Block {
    std::size_t size = 0;
    int first = 0, last = 0;  ///< steps that hold it, both included
    std::vector<int> roots;
    std::size_t offset = 0;
};

class Planner {
  public:
    explicit Planner(Program& program) : program_(program), last_use_(program.values.size(), -1) {}

    void run() {
        find_last_uses();
        fill_dies();
        if (!program_.is_static) return;
        program_.offsets.assign(program_.values.size(), std::nullopt);
        program_.result_of.assign(program_.values.size(), -1);
        assign_results();
        extend_results();
        make_blocks();
        place_blocks();
    }

  private:
    const Value& value(int number) const { return program_.values[number]; }

    void find_last_uses() {
        const int steps = static_cast<int>(program_.steps.size());
        for (int i = 0; i < steps; ++i) {
            for (const int input : program_.steps[i].inputs)
                if (input >= 0) last_use_[value(input).root] = i;
            for (const int output : program_.steps[i].outputs)
                last_use_[value(output).root] = std::max(last_use_[value(output).root], i);
        }
        for (const int result : program_.results) last_use_[value(result).root] = steps;
    }

    void fill_dies() {
        program_.dies.assign(program_.steps.size(), {});
        for (std::size_t number = 0; number < program_.values.size(); ++number) {
            const int last = last_use_[value(static_cast<int>(number)).root];
            if (last >= 0 && last < static_cast<int>(program_.steps.size()))
                program_.dies[last].push_back(static_cast<int>(number));
        }
    }

    bool whole(const Value& part) const {
        return part.contiguous() && bytes(part.type) == bytes(value(part.root).type);
    }

    void assign_results() {
        for (std::size_t i = 0; i < program_.results.size(); ++i) {
            const Value& result = value(program_.results[i]);
            if (value(result.root).place == Place::temporary && whole(result) &&
                program_.result_of[result.root] < 0)
                program_.result_of[result.root] = static_cast<int>(i);
        }
    }

    /// What a result is made of by updates is computed in the result's memory too.
    void extend_results() {
        for (int i = static_cast<int>(program_.steps.size()); i-- > 0;) {
            const Step& step = program_.steps[i];
            if (step.kind != Kind::row || !step.kernel->updates) continue;
            const int result = program_.result_of[value(step.outputs[0]).root];
            if (result < 0) continue;
            if (const int root = reusable(step, i, step.outputs[0]); root >= 0)
                program_.result_of[root] = result;
        }
    }

    bool owns_memory(int number) const {
        return value(number).root == number && value(number).place == Place::temporary;
    }

    /// An input whose memory the output may take over.
    int reusable(const Step& step, int index, int output) const {
        if (step.kind != Kind::row || step.outputs.size() != 1) return -1;
        if (!step.kernel->elementwise && !step.kernel->updates) return -1;
        const std::span inputs(step.inputs.data(), step.kernel->updates ? 1 : step.inputs.size());
        for (const int input : inputs) {
            if (input < 0) continue;
            const int root = value(input).root;
            const bool read_otherwise = std::ranges::any_of(step.inputs, [&](const int& other) {
                if (other < 0 || value(other).root != root) return false;
                return !whole(value(other)) || (step.kernel->updates && &other != &input);  // x + x.T
            });
            if (read_otherwise) continue;
            if (owns_memory(root) && program_.result_of[root] < 0 && last_use_[root] == index &&
                whole(value(input)) && value(input).type.dims == value(output).type.dims &&
                value(input).type.dtype == value(output).type.dtype)
                return root;
        }
        return -1;
    }

    void make_blocks() {
        std::vector<int> block_of(program_.values.size(), -1);
        for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) {
            const Step& step = program_.steps[i];
            if (step.kind == Kind::view) continue;
            for (const int made : step.outputs) {
                const int output = value(made).root;  // another step may have written a part of it
                if (!owns_memory(output) || program_.result_of[output] >= 0 || block_of[output] >= 0)
                    continue;
                const int taken = output == made ? reusable(step, i, output) : -1;
                const int number = taken >= 0 ? block_of[taken] : static_cast<int>(blocks_.size());
                if (taken < 0)
                    blocks_.push_back({(bytes(value(output).type) + kAlignment - 1) / kAlignment * kAlignment,
                                       i,
                                       i,
                                       {},
                                       0});
                block_of[output] = number;
                blocks_[number].roots.push_back(output);
                blocks_[number].last = std::max(blocks_[number].last, last_use_[output]);
            }
        }
    }

    /// Largest first, each at the lowest place that is free while it lives (greedy by size: Pisarchyk and
    /// Lee, 2020, section 4.2).
    void place_blocks() {
        std::vector<Block*> order;
        for (Block& block : blocks_) order.push_back(&block);
        std::ranges::stable_sort(order, std::greater<>(), &Block::size);
        std::vector<const Block*> placed;  // by offset
        for (Block* block : order) {
            std::size_t offset = 0;
            for (const Block* other : placed) {
                if (other->last < block->first || block->last < other->first) continue;
                if (offset + block->size <= other->offset) break;
                offset = std::max(offset, other->offset + other->size);
            }
            block->offset = offset;
            program_.workspace = std::max(program_.workspace, offset + block->size);
            placed.insert(
                std::ranges::upper_bound(placed, offset, {}, [](const Block* b) { return b->offset; }),
                block);
        }
        for (const Block& block : blocks_)
            for (const int root : block.roots) program_.offsets[root] = block.offset;
    }

    Program& program_;
    std::vector<int> last_use_;  ///< by root: the last step that touches it; the number of steps for results
    std::vector<Block> blocks_;
};

}  // namespace

void plan(Program& program) { Planner(program).run(); }

}  // namespace npu::ge
