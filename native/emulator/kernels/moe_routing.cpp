// Choosing experts (gating), spreading tokens over them and gathering their results. Without quantisation.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

// The k largest per row; of equal ones the first.
std::tuple<Tensor, Tensor> largest(const Tensor& x, int64_t k) {
    const auto [values, places] = at::sort(x, /*stable=*/true, -1, /*descending=*/true);
    return {values.narrow(-1, 0, k), places.narrow(-1, 0, k)};
}

// Rows that are finished get the number after the last expert.
Tensor experts_or_none(const Tensor& places, Optional finished, int64_t experts) {
    return finished ? places.masked_fill(finished->to(at::kBool).unsqueeze(-1), experts) : places;
}

void gating_softmax(const Tensor& x, Optional finished, int64_t k, const Tensor& y, const Tensor& expert,
                    const Tensor& row) {
    const auto [values, places] = largest(at::_softmax(widen(x), -1, false), k);
    write(y, values);
    write(expert, experts_or_none(places, finished, x.size(-1)));
    const auto rows = row.numel() / std::max<int64_t>(1, k);
    write(row,
          at::arange(row.numel(), row.options().dtype(at::kLong)).view({k, rows}).t().reshape(row.sizes()));
}

void gating_softmax_v2(const Tensor& x, Optional finished, int64_t k, int64_t renorm, bool keep,
                       const Tensor& y, const Tensor& expert, Optional softmax) {
    TORCH_CHECK(renorm == 0 || renorm == 1, "renorm is ", renorm, ", it must be 0 or 1");
    TORCH_CHECK(!keep || renorm == 0,
                "outputSoftmaxResultFlag is true, but renorm 1 has no softmax of all experts");
    const auto wide = widen(x);
    const auto scores = renorm == 0 ? at::_softmax(wide, -1, false) : wide;
    const auto [values, places] = largest(scores, k);
    write(y, renorm == 0 ? values : at::_softmax(values, -1, false));
    write(expert, experts_or_none(places, finished, x.size(-1)));
    if (!keep) return;
    TORCH_CHECK(softmax, "outputSoftmaxResultFlag is true, but softmaxResultOutOptional is null");
    write(*softmax, scores);
}

Tensor normalized_scores(const Tensor& x, int64_t type) {
    TORCH_CHECK(type >= 0 && type <= 2, "normType is ", type,
                "; known are 0 (softmax), 1 (sigmoid), 2 (root of softplus)");
    const auto wide = widen(x);
    return type == 0   ? at::_softmax(wide, -1, false)
           : type == 1 ? at::sigmoid(wide)
                       : at::softplus(wide).sqrt();
}

// With groups of experts, only those of the kGroup best groups can be chosen.
Tensor best_groups_only(const Tensor& scores, int64_t groups, int64_t kept, int64_t select) {
    if (groups <= 1) return scores;
    TORCH_CHECK(select == 0 || select == 1, "groupSelectMode is ", select, ", it must be 0 or 1");
    const auto grouped = scores.view({scores.size(0), groups, -1});
    const auto value = select == 0 ? grouped.amax(-1) : std::get<0>(grouped.topk(2, -1)).sum(-1);
    const auto chosen = std::get<1>(largest(value, kept));
    const auto closed = at::ones(value.sizes(), value.options().dtype(at::kBool)).scatter(1, chosen, 0);
    return grouped.masked_fill(closed.unsqueeze(-1), -std::numeric_limits<double>::infinity())
        .view(scores.sizes());
}

void gating(const Tensor& x, Optional bias, int64_t k, int64_t k_group, int64_t groups, int64_t select,
            int64_t renorm, int64_t norm_type, bool keep, double factor, double eps, const Tensor& y,
            const Tensor& expert, Optional out) {
    TORCH_CHECK(renorm == 0 || renorm == 1, "renorm is ", renorm, ", it must be 0 or 1");
    const auto scores = normalized_scores(x, norm_type);
    const auto biased = bias ? scores + bias->to(scores.scalar_type()) : scores;
    const auto places = std::get<1>(largest(best_groups_only(biased, groups, k_group, select), k));
    auto value = scores.gather(-1, places);
    if (norm_type != 0 || renorm == 1) value = value / (value.sum(-1, true) + eps);
    write(y, value * factor);
    write(expert, places);
    TORCH_CHECK(!keep || out, "outFlag is true, but outOut is null");
    if (out && out->numel() > 0) write(*out, scores);
}

void gating_backward(const Tensor& scores, const Tensor& grad, const Tensor& expert, int64_t renorm,
                     int64_t norm_type, double factor, double eps, const Tensor& out) {
    TORCH_CHECK(norm_type == 1, "normType is ", norm_type, ": only 1 (sigmoid) has a gradient");
    TORCH_CHECK(renorm == 0 || renorm == 1, "renorm is ", renorm, ", it must be 0 or 1");
    const auto wide = widen(scores);
    const auto type = wide.scalar_type();
    const auto places = expert.to(at::kLong);
    const auto up = grad.to(type) * factor, chosen = wide.gather(-1, places);
    const auto total = chosen.sum(-1, true) + eps;
    const auto pull = (chosen / total * up).sum(-1, true);
    const auto spread = at::zeros_like(wide).scatter_add(-1, places, (up - pull) / total);
    write(out, wide * (1 - wide) * spread);
}

// expandedRowIdx[place] = position in the order by expert, of every (row, k) place.
void init_routing(const Tensor& x, const Tensor& row, const Tensor& expert, int64_t active, const Tensor& out,
                  const Tensor& row_out, const Tensor& expert_out) {
    const auto [experts, order] = at::sort(expert.reshape({-1}), /*stable=*/true, 0, /*descending=*/false);
    const auto rows = row.reshape({-1}).to(at::kLong).index_select(0, order);
    auto places = at::empty_like(rows);
    places.index_copy_(0, rows, at::arange(rows.numel(), rows.options()));
    write(expert_out, experts.reshape(expert_out.sizes()));
    write(row_out, places.reshape(row_out.sizes()));
    const auto count = std::min(rows.numel(), active * (expert.dim() > 1 ? expert.size(1) : 1));
    TORCH_CHECK(out.size(0) == count, "expandedXOut has ", out.size(0), " rows, activeNum ", active,
                " gives ", count);
    write(out, x.index_select(0, rows.narrow(0, 0, count).remainder(std::max<int64_t>(1, x.size(0)))));
}

struct Order {
    Tensor experts, places;  // sorted expert numbers, and the place each came from
    int64_t k;

    explicit Order(const Tensor& expert) : k(expert.dim() > 1 ? expert.size(-1) : 1) {
        std::tie(experts, places) =
            at::sort(expert.reshape({-1}).to(at::kLong), /*stable=*/true, 0, /*descending=*/false);
    }
    Tensor counts(int64_t number) const { return at::bincount(experts, {}, number).narrow(0, 0, number); }
};

// Every expert's first `capacity` tokens, the rest of its rows zero; places that found no room are -1.
void init_with_capacity(const Tensor& x, const Order& order, int64_t number, int64_t capacity,
                        const Tensor& out, const Tensor& row_out) {
    const auto counts = order.counts(number);
    const auto starts = counts.cumsum(0) - counts;
    const auto rank =
        at::arange(order.experts.numel(), counts.options()) - starts.index_select(0, order.experts);
    const auto kept = rank.lt(capacity);
    const auto slot = at::where(kept, order.experts * capacity + rank, at::full_like(rank, -1));
    auto places = at::empty_like(slot);
    places.index_copy_(0, order.places, slot);
    write(row_out, places.reshape(row_out.sizes()));
    auto rows = at::zeros({number * capacity, x.size(1)}, x.options());
    const auto from = at::floor_divide(order.places.masked_select(kept), order.k);
    rows.index_copy_(0, slot.masked_select(kept), x.index_select(0, from));
    write(out, rows.reshape(out.sizes()));
}

void init_routing_v2(const Tensor& x, const Tensor& expert, int64_t active, int64_t capacity, int64_t number,
                     int64_t pad, int64_t count_flag, bool before_flag, const Tensor& out,
                     const Tensor& row_out, Optional counts_out, Optional before_out) {
    TORCH_CHECK(pad == 0 || pad == 1, "dropPadMode is ", pad, ", it must be 0 or 1");
    TORCH_CHECK(count_flag >= 0 && count_flag <= 2, "expertTokensCountOrCumsumFlag is ", count_flag,
                ", it must be 0, 1 or 2");
    const Order order(expert);
    if (pad == 1) {
        init_with_capacity(x, order, number, capacity, out, row_out);
        TORCH_CHECK(!before_flag || before_out, "expertTokensBeforeCapacityOut is asked for, but it is null");
        if (before_flag) write(*before_out, order.counts(number));
        return;
    }
    auto places = at::empty_like(order.places);
    places.index_copy_(0, order.places, at::arange(order.places.numel(), order.places.options()));
    write(row_out, places.reshape(row_out.sizes()));
    const auto count = active == 0 ? order.places.numel() : std::min(active, order.places.numel());
    write(out, x.index_select(0, at::floor_divide(order.places.narrow(0, 0, count), order.k)));
    if (count_flag == 0) return;
    TORCH_CHECK(counts_out, "expertTokensCountOrCumsumOut is asked for, but it is null");
    const auto counts = order.counts(number);
    write(*counts_out, count_flag == 1 ? counts.cumsum(0) : counts);
}

// The experts of activeExpertRange only: places of others come last and lead nowhere (-1).
struct ActiveOrder {
    Tensor places, experts;  // sorted by expert; the first `count` are active
    int64_t k, first, last, count;

    ActiveOrder(const Tensor& expert, IntArrayRef range, int64_t number)
        : k(expert.dim() > 1 ? expert.size(-1) : 1), first(0), last(number) {
        if (!range.empty()) {
            TORCH_CHECK(range.size() == 2 && range[0] >= 0 && range[0] <= range[1] && range[1] <= number,
                        "activeExpertRangeOptional is ", range, ", it must be two numbers up to expertNum ",
                        number);
            first = range[0];
            last = range[1];
        }
        const auto flat = expert.reshape({-1}).to(at::kLong);
        const auto active = flat.ge(first).logical_and(flat.lt(last));
        std::tie(experts, places) =
            at::sort(at::where(active, flat, at::full_like(flat, number)), /*stable=*/true, 0,
                     /*descending=*/false);
        count = active.sum().item<int64_t>();
    }
    Tensor active_experts() const { return experts.narrow(0, 0, count); }
    Tensor active_places() const { return places.narrow(0, 0, count); }
    Tensor counts() const { return at::bincount(active_experts() - first, {}, last - first); }
    Tensor tokens(int64_t rows) const { return at::floor_divide(places.narrow(0, 0, rows), k); }
};

// The first rows of `out`; there may be more, for places that are not active: zero.
void write_rows(const Tensor& out, const Tensor& rows) {
    TORCH_CHECK(out.size(0) >= rows.size(0), "an output has ", out.size(0), " rows, the result has ",
                rows.size(0));
    write(out.narrow(0, 0, rows.size(0)), rows);
    out.narrow(0, rows.size(0), out.size(0) - rows.size(0)).zero_();
}

void write_expert_counts(const ActiveOrder& order, int64_t type, const Tensor& out) {
    const auto counts = order.counts();
    if (type == 0) return write(out, counts.cumsum(0));
    if (type == 1) return write(out, counts);
    TORCH_CHECK(type == 2, "expertTokensNumType is ", type, "; known are 0 (sums), 1 (counts) and 2 (pairs)");
    const auto seen = counts.nonzero().squeeze(1);
    write_rows(out, at::stack({seen + order.first, counts.index_select(0, seen)}, 1));
}

void init_routing_v3(const Tensor& x, const Tensor& expert, Optional scale, int64_t active, int64_t capacity,
                     int64_t number, int64_t pad, int64_t count_type, bool count_flag, int64_t quant_mode,
                     IntArrayRef range, int64_t row_type, const Tensor& out, const Tensor& row_out,
                     Optional counts, Optional scale_out) {
    TORCH_CHECK(quant_mode == -1, "quantMode is ", quant_mode, ": only -1 (none) is supported");
    TORCH_CHECK(pad == 0 || pad == 1, "dropPadMode is ", pad, ", it must be 0 or 1");
    TORCH_CHECK(row_type == 0 || (row_type == 1 && pad == 0), "rowIdxType is ", row_type,
                " with dropPadMode ", pad, ": known are 0, and 1 without padding");
    const ActiveOrder order(expert, range, number);
    if (count_flag) {
        TORCH_CHECK(counts, "expertTokensNumFlag is true, but expertTokensCountOrCumsumOut is null");
        write_expert_counts(order, pad == 1 ? 1 : count_type, *counts);
    }
    if (pad == 1) {
        TORCH_CHECK(!scale, "scaleOptional is not supported with dropPadMode 1");
        TORCH_CHECK(order.count == order.places.numel(),
                    "dropPadMode 1 needs all experts in activeExpertRangeOptional");
        return init_with_capacity(x, Order(expert), number, capacity, out, row_out);
    }
    if (row_type == 1) {
        write(row_out, order.places.reshape(row_out.sizes()));
    } else {
        auto places = at::full_like(order.places, -1);
        places.index_copy_(0, order.active_places(), at::arange(order.count, places.options()));
        write(row_out, places.reshape(row_out.sizes()));
    }
    const auto rows = active <= 0 ? order.count : std::min(active, order.count);
    const auto tokens = order.tokens(rows);
    write_rows(out, x.index_select(0, tokens));
    if (!scale || !scale_out || scale_out->numel() == 0) return;
    write_rows(*scale_out, scale->index_select(0, tokens));
}

// Adds up the experts' results: out = x1 + x2 + sum over k of scales * (expandedX[place] + bias[expert]).
void finalize(const Tensor& expanded, const Tensor& row, Optional x1, Optional x2, Optional bias,
              Optional scales, Optional expert, int64_t mode, const Tensor& out) {
    TORCH_CHECK(mode >= 0 && mode <= 3, "dropPadMode is ", mode, ", it must be 0, 1, 2 or 3");
    const auto flat = widen(expanded).reshape({-1, expanded.size(-1)});
    const auto type = flat.scalar_type();
    const auto rows = out.size(0);
    const auto k = scales   ? scales->size(1)
                   : expert ? expert->size(1)
                            : row.numel() / std::max<int64_t>(1, rows);
    TORCH_CHECK(row.numel() == rows * k, "expandedRowIdx has ", row.numel(), " places, ", rows, " rows of ",
                k, " are needed");
    auto place = row.reshape({-1}).to(at::kLong);
    // Modes 0 and 1 list all rows' first places, then all second ones; 2 and 3 go row by row.
    place = mode < 2 ? place.view({k, rows}).t().reshape({-1}) : place;
    const auto kept = place.ge(0).logical_and(place.lt(flat.size(0)));
    auto value = flat.index_select(0, at::where(kept, place, at::zeros_like(place)));
    value = value.masked_fill(kept.logical_not().unsqueeze(1), 0).view({rows, k, -1});
    if (bias) {
        TORCH_CHECK(expert, "biasOptional is given, but expertIdxOptional is null");
        value =
            value + bias->to(type).index_select(0, expert->reshape({-1}).to(at::kLong)).view({rows, k, -1});
    }
    if (scales) value = value * scales->to(type).unsqueeze(-1);
    auto sum = value.sum(1);
    if (x1) sum = sum + x1->to(type);
    if (x2) sum = sum + x2->to(type);
    write(out, sum);
}

const Table table{
    {"aclnnMoeGatingTopKSoftmax",
     [](const Tensor& x, Optional finished, int64_t k, const Tensor& y, const Tensor& expert,
        const Tensor& row) { gating_softmax(x, finished, k, y, expert, row); }},
    {"aclnnMoeGatingTopKSoftmaxV2",
     [](const Tensor& x, Optional finished, int64_t k, int64_t renorm, bool keep, const Tensor& y,
        const Tensor& expert,
        Optional softmax) { gating_softmax_v2(x, finished, k, renorm, keep, y, expert, softmax); }},
    {"aclnnMoeGatingTopK",
     [](const Tensor& x, Optional bias, int64_t k, int64_t k_group, int64_t groups, int64_t select,
        int64_t renorm, int64_t norm_type, bool keep, double factor, double eps, const Tensor& y,
        const Tensor& expert, Optional out) {
         gating(x, bias, k, k_group, groups, select, renorm, norm_type, keep, factor, eps, y, expert, out);
     }},
    {"aclnnMoeGatingTopKBackward",
     [](const Tensor& scores, const Tensor& grad, const Tensor& expert, int64_t renorm, int64_t norm_type,
        double factor, double eps,
        const Tensor& out) { gating_backward(scores, grad, expert, renorm, norm_type, factor, eps, out); }},
    {"aclnnMoeInitRouting",
     [](const Tensor& x, const Tensor& row, const Tensor& expert, int64_t active, const Tensor& out,
        const Tensor& row_out,
        const Tensor& expert_out) { init_routing(x, row, expert, active, out, row_out, expert_out); }},
    {"aclnnMoeInitRoutingV2",
     [](const Tensor& x, const Tensor& expert, int64_t active, int64_t capacity, int64_t number, int64_t pad,
        int64_t count_flag, bool before_flag, const Tensor& out, const Tensor& row_out, Optional counts,
        Optional before) {
         init_routing_v2(x, expert, active, capacity, number, pad, count_flag, before_flag, out, row_out,
                         counts, before);
     }},
    {"aclnnMoeInitRoutingV3",
     [](const Tensor& x, const Tensor& expert, Optional scale, Optional /*offset*/, int64_t active,
        int64_t capacity, int64_t number, int64_t pad, int64_t count_type, bool count_flag,
        int64_t quant_mode, IntArrayRef range, int64_t row_type, const Tensor& out, const Tensor& row_out,
        Optional counts, Optional scale_out) {
         init_routing_v3(x, expert, scale, active, capacity, number, pad, count_type, count_flag, quant_mode,
                         range, row_type, out, row_out, counts, scale_out);
     }},
    {"aclnnMoeFinalizeRouting",
     [](const Tensor& expanded, const Tensor& x1, Optional x2, const Tensor& bias, const Tensor& scales,
        const Tensor& row, const Tensor& expert,
        const Tensor& out) { finalize(expanded, row, x1, x2, bias, scales, expert, 0, out); }},
    {"aclnnMoeFinalizeRoutingV2",
     [](const Tensor& expanded, const Tensor& row, Optional x1, Optional x2, Optional bias, Optional scales,
        Optional expert, int64_t mode,
        const Tensor& out) { finalize(expanded, row, x1, x2, bias, scales, expert, mode, out); }},
    // The number of rows of the experts up to each one.
    {"aclnnMoeComputeExpertTokens",
     [](const Tensor& sorted, int64_t experts, const Tensor& out) {
         const auto wanted = at::arange(experts, sorted.options());
         write(out, at::searchsorted(sorted.contiguous(), wanted, /*out_int32=*/false, /*right=*/true));
     }},
};

}  // namespace
}  // namespace npu::emulator
