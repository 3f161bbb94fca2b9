// Online softmax over tiles (Dao et al., FlashAttention, arXiv:2205.14135; backward as in arXiv:2307.08691),
// in f32. A task is one block of query rows (forward) or one key/value head (backward) of one sequence; the
// tiles' arithmetic is ATen's.
#include "kernels/attention.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "kernels/attention_problem.h"

namespace npu::emulator {
namespace {

constexpr int64_t kQueryBlock = 128;
constexpr int64_t kKeyBlock = 512;

// Probabilities are hidden by -inf scores; a row with nothing visible subtracts 0 instead of -inf.
Tensor finite_or_zero(const Tensor& row_max) { return row_max.masked_fill(row_max.isneginf(), 0.0); }

void forward_block(const AttentionProblem& problem, const Sequence& sequence, int64_t head, int64_t q0,
                   const Tensor& maxes, const Tensor& sums, const Tensor& out) {
    const int64_t rows = std::min(kQueryBlock, sequence.q_length - q0);
    const int64_t kv_head = head / problem.group;
    const Tensor q = problem.rows(problem.query, sequence.index, head, sequence.q_start + q0, rows);
    const auto range = problem.visible_keys(sequence, q0, rows);

    Tensor row_max = at::full({rows, 1}, -std::numeric_limits<float>::infinity());
    Tensor row_sum = at::zeros({rows, 1});
    Tensor accumulated = at::zeros({rows, problem.value.size(-1)});
    for (int64_t k0 = range.begin; k0 < range.end; k0 += kKeyBlock) {
        const int64_t columns = std::min(kKeyBlock, range.end - k0);
        const Tile tile{q0, rows, k0, columns};
        Tensor scores = problem.scores(q, sequence, head, tile);
        const Tensor new_max = at::maximum(row_max, scores.amax(1, true));
        const Tensor shift = finite_or_zero(new_max);
        scores.sub_(shift).exp_();
        const Tensor decay = row_max.sub(shift).exp_();
        row_sum.mul_(decay).add_(scores.sum(1, true));
        if (problem.drops()) scores.mul_(problem.keep(sequence, head, tile));
        const Tensor v =
            problem.rows(problem.value, sequence.index, kv_head, sequence.kv_start + k0, columns);
        accumulated.mul_(decay).addmm_(scores, v);
        row_max = new_max;
    }
    const Tensor hidden = row_sum.eq(0);
    accumulated.div_(row_sum.masked_fill(hidden, 1.0));
    problem.rows(out, sequence.index, head, sequence.q_start + q0, rows).copy_(accumulated);
    const auto lowest = std::numeric_limits<float>::lowest();
    problem.statistic(maxes, sequence.index, head, sequence.q_start + q0, rows)
        .copy_(row_max.masked_fill(hidden, lowest));
    problem.statistic(sums, sequence.index, head, sequence.q_start + q0, rows).copy_(row_sum);
}

// Gradients of the rows of one key/value head, with respect to all query heads that share it.
struct HeadGradients {
    const Tensor &query, &key, &value;  // f32, problem layout, zeroed
    const Tensor* pse;                  // [B, N, Sq, Skv] or null
};

void backward_tile(const AttentionProblem& problem, const Sequence& sequence, int64_t head, const Tile& tile,
                   const Tensor& q, const Tensor& grad_out, const Tensor& dot, const Tensor& shift,
                   const Tensor& inverse_sum, const HeadGradients& gradients) {
    const int64_t kv_head = head / problem.group;
    const int64_t key_row = sequence.kv_start + tile.k0;
    const Tensor k = problem.rows(problem.key, sequence.index, kv_head, key_row, tile.columns);
    const Tensor v = problem.rows(problem.value, sequence.index, kv_head, key_row, tile.columns);
    Tensor probabilities = problem.scores(q, sequence, head, tile);
    probabilities.sub_(shift).exp_().mul_(inverse_sum);
    Tensor grad_p = at::mm(grad_out, v.t());
    Tensor dk = problem.rows(gradients.key, sequence.index, kv_head, key_row, tile.columns);
    Tensor dv = problem.rows(gradients.value, sequence.index, kv_head, key_row, tile.columns);
    if (problem.drops()) {
        const Tensor keep = problem.keep(sequence, head, tile);
        dv.addmm_(probabilities.mul(keep).t(), grad_out);
        grad_p.mul_(keep);
    } else {
        dv.addmm_(probabilities.t(), grad_out);
    }
    const Tensor grad_scores = grad_p.sub_(dot).mul_(probabilities);
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
    dk.addmm_(grad_scores.t(), q, 1, problem.options.scale);
}

void backward_head(const AttentionProblem& problem, const Sequence& sequence, int64_t kv_head,
                   const Tensor& grad_out, const Tensor& maxes, const Tensor& sums, const Tensor& out,
                   const HeadGradients& gradients) {
    for (int64_t head = kv_head * problem.group; head < (kv_head + 1) * problem.group; ++head) {
        for (int64_t q0 = 0; q0 < sequence.q_length; q0 += kQueryBlock) {
            const int64_t rows = std::min(kQueryBlock, sequence.q_length - q0);
            const int64_t row = sequence.q_start + q0;
            const Tensor q = problem.rows(problem.query, sequence.index, head, row, rows);
            const Tensor dy = problem.rows(grad_out, sequence.index, head, row, rows);
            const Tensor dot = at::mul(dy, problem.rows(out, sequence.index, head, row, rows)).sum(1, true);
            const Tensor shift = problem.statistic(maxes, sequence.index, head, row, rows).narrow(1, 0, 1);
            const Tensor sum = problem.statistic(sums, sequence.index, head, row, rows).narrow(1, 0, 1);
            // Rows that attend to nothing have exp(-inf - lowest) = 0 everywhere: any divisor but 0 will do.
            const Tensor inverse_sum = sum.masked_fill(sum.eq(0), 1.0).reciprocal_();
            const auto range = problem.visible_keys(sequence, q0, rows);
            for (int64_t k0 = range.begin; k0 < range.end; k0 += kKeyBlock) {
                const Tile tile{q0, rows, k0, std::min(kKeyBlock, range.end - k0)};
                backward_tile(problem, sequence, head, tile, q, dy, dot, shift, inverse_sum, gradients);
            }
        }
    }
}

// Runs body(task) for all tasks on all cores, each thread below autograd as the compute thread itself is.
template <class F>
void for_each_task(int64_t tasks, const F& body) {
    at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        for (int64_t task = begin; task < end; ++task) body(task);
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
    for (auto& sequence : problem.sequences) {
        for (int64_t head = 0; head < options.heads; ++head) {
            for (int64_t q0 = 0; q0 < sequence.q_length; q0 += kQueryBlock)
                tasks.push_back({&sequence, head, q0});
        }
    }
    for_each_task(static_cast<int64_t>(tasks.size()), [&](int64_t index) {
        const auto& task = tasks[index];
        forward_block(problem, *task.sequence, task.head, task.q0, maxes, sums, result);
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
    if (gradients.pse && in.pse) dpse = at::zeros(problem.pse->sizes());
    const HeadGradients head_gradients{dq, dk, dv, dpse.defined() ? &dpse : nullptr};
    const int64_t kv_heads = options.heads / problem.group;
    for_each_task(static_cast<int64_t>(problem.sequences.size()) * kv_heads, [&](int64_t task) {
        backward_head(problem, problem.sequences[task / kv_heads], task % kv_heads, dy, maxes, sums, result,
                      head_gradients);
    });
    problem.split_rope(dq, problem.view_rows(gradients.query), gradients.query_rope);
    problem.split_rope(dk, problem.view_rows(gradients.key), gradients.key_rope);
    write(problem.view_rows(gradients.value), dv);
    if (dpse.defined()) write(*gradients.pse, dpse.sum_to_size(gradients.pse->sizes()));
}

}  // namespace npu::emulator
