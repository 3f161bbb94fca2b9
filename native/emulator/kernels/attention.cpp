// Online softmax over tiles (Dao et al., FlashAttention, arXiv:2205.14135; backward as in arXiv:2307.08691),
// in f32. A task is one block of query rows (forward) or one key/value head (backward) of one sequence; the
// tiles' products and exponentials are ATen's, what is between them are loops over rows.
#include "kernels/attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention_problem.h"
#include "kernels/rows.h"

namespace npu::emulator {
namespace {

constexpr int64_t kQueryBlock = 128;
constexpr int64_t kKeyBlock = 512;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A tile's worth of memory, kept by a thread over its tasks: fresh pages cost more than the arithmetic.
class TileBuffer {
  public:
    // Uninitialised f32 [rows, columns], valid until the next call.
    Tensor of(const Tile& tile) {
        const auto needed = static_cast<std::size_t>(tile.rows * tile.columns);
        if (size_ < needed) {
            size_ = needed;
            memory_ = std::make_unique_for_overwrite<float[]>(size_);
        }
        return at::from_blob(memory_.get(), {tile.rows, tile.columns}, at::kFloat);
    }

  private:
    std::unique_ptr<float[]> memory_;
    std::size_t size_ = 0;
};

struct Scratch {
    TileBuffer probabilities, gradients;
};

// Calls body(row, its elements, visible begin, visible end) for the rows of a contiguous tile.
template <class F>
void for_each_row(const AttentionProblem& problem, const Sequence& sequence, const Tile& tile,
                  const Tensor& scores, const F& body) {
    float* data = scores.data_ptr<float>();
    for (int64_t row = 0; row < tile.rows; ++row, data += tile.columns) {
        const auto seen = problem.visible_columns(sequence, tile, row);
        body(row, data, seen.begin, seen.end);
    }
}

void fill_hidden(float* row, int64_t begin, int64_t end, int64_t columns) {
    std::fill(row, row + begin, 0.0F);
    std::fill(row + end, row + columns, 0.0F);
}

void forward_block(const AttentionProblem& problem, const Sequence& sequence, int64_t head, int64_t q0,
                   const Tensor& maxes, const Tensor& sums, const Tensor& out, Scratch& scratch) {
    const int64_t rows = std::min(kQueryBlock, sequence.q_length - q0);
    const int64_t kv_head = head / problem.group;
    const Tensor q = problem.rows(problem.query, sequence.index, head, sequence.q_start + q0, rows);
    const auto range = problem.visible_keys(sequence, q0, rows);

    const int64_t value_size = problem.value.size(-1);
    Tensor accumulated = at::zeros({rows, value_size}, at::kFloat);
    float* const result = accumulated.data_ptr<float>();
    std::vector<float> row_max(rows, -kInfinity), row_sum(rows, 0.0F);
    for (int64_t k0 = range.begin; k0 < range.end; k0 += kKeyBlock) {
        const Tile tile{q0, rows, k0, std::min(kKeyBlock, range.end - k0)};
        Tensor scores = scratch.probabilities.of(tile);
        problem.scores(q, sequence, head, tile, scores);
        for_each_row(problem, sequence, tile, scores, [&](int64_t row, float* x, int64_t begin, int64_t end) {
            const float before = row_max[row];
            row_max[row] = rows::largest(x + begin, end - begin, before);
            // A row with nothing visible yet has -inf scores only, of which nothing may be subtracted.
            const float shift = row_max[row] == -kInfinity ? 0.0F : row_max[row];
            rows::subtract(x + begin, shift, end - begin);
            fill_hidden(x, begin, end, tile.columns);
            const float decay = std::exp(before - shift);
            row_sum[row] *= decay;
            rows::multiply(result + row * value_size, decay, value_size);
        });
        scores.exp_();
        for_each_row(problem, sequence, tile, scores, [&](int64_t row, float* x, int64_t begin, int64_t end) {
            fill_hidden(x, begin, end, tile.columns);
            row_sum[row] += rows::sum(x + begin, end - begin);
        });
        if (problem.drops()) scores.mul_(problem.keep(sequence, head, tile));
        accumulated.addmm_(scores, problem.rows(problem.value, sequence.index, kv_head,
                                                sequence.kv_start + k0, tile.columns));
    }
    for (int64_t row = 0; row < rows; ++row) {
        const bool hidden = row_sum[row] == 0;
        if (hidden) row_max[row] = std::numeric_limits<float>::lowest();
        rows::multiply(result + row * value_size, hidden ? 0.0F : 1 / row_sum[row], value_size);
    }
    const int64_t first = sequence.q_start + q0;
    problem.rows(out, sequence.index, head, first, rows).copy_(accumulated);
    const auto lanes = [&](std::vector<float>& figure) {
        return at::from_blob(figure.data(), {rows, 1}, at::kFloat);
    };
    problem.statistic(maxes, sequence.index, head, first, rows).copy_(lanes(row_max));
    problem.statistic(sums, sequence.index, head, first, rows).copy_(lanes(row_sum));
}

// Gradients of the rows of one key/value head, with respect to all query heads that share it.
struct HeadGradients {
    const Tensor &query, &key, &value;  // f32, problem layout, zeroed
    const Tensor* pse;                  // [B, N, Sq, Skv] or null
};

// What the backward pass needs of a block of query rows, each [rows].
struct QueryBlock {
    const Tensor &q, &grad_out;
    std::vector<float> shift, inverse_sum, dot;
};

void backward_tile(const AttentionProblem& problem, const Sequence& sequence, int64_t head, const Tile& tile,
                   const QueryBlock& block, const HeadGradients& gradients, Scratch& scratch) {
    const int64_t kv_head = head / problem.group;
    const int64_t key_row = sequence.kv_start + tile.k0;
    const Tensor k = problem.rows(problem.key, sequence.index, kv_head, key_row, tile.columns);
    const Tensor v = problem.rows(problem.value, sequence.index, kv_head, key_row, tile.columns);
    Tensor probabilities = scratch.probabilities.of(tile), grad_scores = scratch.gradients.of(tile);
    problem.scores(block.q, sequence, head, tile, probabilities);
    for_each_row(problem, sequence, tile, probabilities,
                 [&](int64_t row, float* x, int64_t begin, int64_t end) {
                     rows::subtract(x + begin, block.shift[row], end - begin);
                     fill_hidden(x, begin, end, tile.columns);
                 });
    probabilities.exp_();
    for_each_row(problem, sequence, tile, probabilities,
                 [&](int64_t row, float* x, int64_t begin, int64_t end) {
                     fill_hidden(x, begin, end, tile.columns);
                     rows::multiply(x + begin, block.inverse_sum[row], end - begin);
                 });
    at::mm_out(grad_scores, block.grad_out, v.t());
    Tensor dk = problem.rows(gradients.key, sequence.index, kv_head, key_row, tile.columns);
    Tensor dv = problem.rows(gradients.value, sequence.index, kv_head, key_row, tile.columns);
    if (problem.drops()) {
        const Tensor keep = problem.keep(sequence, head, tile);
        dv.addmm_(probabilities.mul(keep).t(), block.grad_out);
        grad_scores.mul_(keep);
    } else {
        dv.addmm_(probabilities.t(), block.grad_out);
    }
    const float* const p = probabilities.data_ptr<float>();
    for_each_row(problem, sequence, tile, grad_scores, [&](int64_t row, float* x, int64_t, int64_t) {
        rows::softmax_gradient(x, p + row * tile.columns, block.dot[row], tile.columns);
    });
    if (gradients.pse != nullptr) {
        const double factor = problem.options.pse_type == 1 ? problem.options.scale : 1.0;
        gradients.pse->select(0, sequence.index)
            .select(0, head)
            .narrow(0, tile.q0, tile.rows)
            .narrow(1, tile.k0, tile.columns)
            .copy_(grad_scores.mul(factor));
    }
    Tensor dq = problem.rows(gradients.query, sequence.index, head, sequence.q_start + tile.q0, tile.rows);
    dq.addmm_(grad_scores, k, 1, problem.options.scale);
    dk.addmm_(grad_scores.t(), block.q, 1, problem.options.scale);
}

void backward_head(const AttentionProblem& problem, const Sequence& sequence, int64_t kv_head,
                   const Tensor& grad_out, const Tensor& maxes, const Tensor& sums, const Tensor& out,
                   const HeadGradients& gradients, Scratch& scratch) {
    for (int64_t head = kv_head * problem.group; head < (kv_head + 1) * problem.group; ++head) {
        for (int64_t q0 = 0; q0 < sequence.q_length; q0 += kQueryBlock) {
            const int64_t count = std::min(kQueryBlock, sequence.q_length - q0);
            const int64_t first = sequence.q_start + q0;
            const Tensor q = problem.rows(problem.query, sequence.index, head, first, count);
            const Tensor dy = problem.rows(grad_out, sequence.index, head, first, count);
            const Tensor dot =
                at::mul(dy, problem.rows(out, sequence.index, head, first, count)).sum(1).contiguous();
            const Tensor shift = problem.statistic(maxes, sequence.index, head, first, count).select(1, 0);
            const Tensor sum = problem.statistic(sums, sequence.index, head, first, count).select(1, 0);
            QueryBlock block{q, dy, std::vector<float>(count), std::vector<float>(count),
                             std::vector<float>(count)};
            for (int64_t row = 0; row < count; ++row) {
                // Rows that attend to nothing have exp(-inf - lowest) = 0 everywhere: any divisor but 0 will
                // do.
                const float divisor = sum.data_ptr<float>()[row * sum.stride(0)];
                block.inverse_sum[row] = divisor == 0 ? 1.0F : 1 / divisor;
                block.shift[row] = shift.data_ptr<float>()[row * shift.stride(0)];
                block.dot[row] = dot.data_ptr<float>()[row];
            }
            const auto range = problem.visible_keys(sequence, q0, count);
            for (int64_t k0 = range.begin; k0 < range.end; k0 += kKeyBlock) {
                const Tile tile{q0, count, k0, std::min(kKeyBlock, range.end - k0)};
                backward_tile(problem, sequence, head, tile, block, gradients, scratch);
            }
        }
    }
}

// Runs body(task, scratch) for all tasks on all cores, each thread below autograd as the compute thread
// itself is.
template <class F>
void for_each_task(int64_t tasks, const F& body) {
    at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        Scratch scratch;
        for (int64_t task = begin; task < end; ++task) body(task, scratch);
    });
}

}  // namespace

void attention_forward(const AttentionInputs& in, const AttentionOptions& options, const Tensor& softmax_max,
                       const Tensor& softmax_sum, const Tensor& out) {
    const AttentionProblem problem(in, options);
    const Tensor result = problem.view_rows(out);
    const Tensor maxes = problem.view_statistic(softmax_max), sums = problem.view_statistic(softmax_sum);
    struct Task {
        const Sequence* sequence;
        int64_t head, q0;
    };
    std::vector<Task> tasks;
    // Heads outermost: they are equal, sequences are not, and each core takes one range of the tasks.
    for (int64_t head = 0; head < options.heads; ++head) {
        for (auto& sequence : problem.sequences) {
            for (int64_t q0 = 0; q0 < sequence.q_length; q0 += kQueryBlock)
                tasks.push_back({&sequence, head, q0});
        }
    }
    for_each_task(static_cast<int64_t>(tasks.size()), [&](int64_t index, Scratch& scratch) {
        const auto& task = tasks[index];
        forward_block(problem, *task.sequence, task.head, task.q0, maxes, sums, result, scratch);
    });
}

void attention_backward(const AttentionInputs& in, const AttentionOptions& options, const Tensor& grad_out,
                        const Tensor& softmax_max, const Tensor& softmax_sum, const Tensor& out,
                        const AttentionGradients& gradients) {
    const AttentionProblem problem(in, options);
    const Tensor dy = problem.view_rows(grad_out.to(at::kFloat)),
                 result = problem.view_rows(out.to(at::kFloat));
    const Tensor maxes = problem.view_statistic(softmax_max), sums = problem.view_statistic(softmax_sum);
    const Tensor dq = at::zeros_like(problem.query), dk = at::zeros_like(problem.key),
                 dv = at::zeros_like(problem.value);
    Tensor dpse;
    if (gradients.pse && in.pse) dpse = at::zeros(problem.pse->sizes(), at::kFloat);
    const HeadGradients head_gradients{dq, dk, dv, dpse.defined() ? &dpse : nullptr};
    const int64_t kv_heads = options.heads / problem.group;
    const auto sequences = static_cast<int64_t>(problem.sequences.size());
    for_each_task(sequences * kv_heads, [&](int64_t task, Scratch& scratch) {
        backward_head(problem, problem.sequences[task % sequences], task / sequences, dy, maxes, sums, result,
                      head_gradients, scratch);
    });
    problem.split_rope(dq, problem.view_rows(gradients.query), gradients.query_rope);
    problem.split_rope(dk, problem.view_rows(gradients.key), gradients.key_rope);
    write(problem.view_rows(gradients.value), dv);
    if (dpse.defined()) write(*gradients.pse, dpse.sum_to_size(gradients.pse->sizes()));
}

}  // namespace npu::emulator
