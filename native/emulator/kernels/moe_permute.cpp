// Tokens to the order of their experts and back, by expert numbers or by a routing map, with the gradients.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

Tensor rows_of(const Tensor& index) { return index.to(at::kLong).reshape({-1}); }

void check_unpadded(bool padded) {
    TORCH_CHECK(!padded, "paddedMode is true: it is not supported, pass false");
}

int64_t per_token(int64_t slots, int64_t tokens) {
    TORCH_CHECK(tokens > 0 ? slots % tokens == 0 : slots == 0, slots, " places do not divide among ", tokens,
                " tokens");
    return tokens == 0 ? 1 : slots / tokens;
}

// indices (tokens) or (tokens, k): the expert of every place. sortedIndices: where each place went.
void permute(const Tensor& tokens, const Tensor& indices, int64_t wanted, const Tensor& out,
             const Tensor& sorted) {
    const auto k = indices.dim() == 1 ? 1 : indices.size(1);
    auto order = at::argsort(indices.reshape({-1}), /*stable=*/true, 0, /*descending=*/false);
    write(sorted, at::argsort(order, /*stable=*/true, 0, /*descending=*/false).reshape(sorted.sizes()));
    if (wanted < 0) wanted += order.numel();
    if (wanted > 0) order = order.narrow(0, 0, std::min(wanted, order.numel()));
    write(out, tokens.index_select(0, at::floor_divide(order, k)));
}

// The rows that `places` name; a place that was dropped (negative, or beyond the rows kept) gives zeros.
Tensor gather_rows(const Tensor& source, const Tensor& places) {
    const auto index = rows_of(places);
    const auto kept = index.ge(0).logical_and(index.lt(source.size(0)));
    if (source.size(0) == 0) return at::zeros({index.numel(), source.size(1)}, source.options());
    return source.index_select(0, at::where(kept, index, at::zeros_like(index)))
        .masked_fill(kept.logical_not().unsqueeze(1), 0);
}

// The inverse: rows to their places; several rows at one place are summed.
Tensor place_rows(const Tensor& rows, const Tensor& places, int64_t count) {
    const auto index = rows_of(places);
    const auto kept = index.ge(0).logical_and(index.lt(count));
    auto out = at::zeros({count, rows.size(1)}, rows.options());
    if (count == 0) return out;
    return out.index_add(0, at::where(kept, index, at::zeros_like(index)),
                         rows.masked_fill(kept.logical_not().unsqueeze(1), 0));
}

void permute_grad(const Tensor& grad, const Tensor& sorted, int64_t k, const Tensor& out) {
    TORCH_CHECK(k >= 1, "numTopk is ", k, ", it must be at least 1");
    write(out, gather_rows(widen(grad), sorted).view({-1, k, grad.size(1)}).sum(1));
}

void unpermute(const Tensor& tokens, const Tensor& sorted, Optional probs, const Tensor& out) {
    const auto k = probs ? probs->size(1) : per_token(sorted.numel(), out.size(0));
    auto value = gather_rows(widen(tokens), sorted).view({-1, k, tokens.size(1)});
    if (probs) value = value * probs->to(value.scalar_type()).unsqueeze(-1);
    write(out, value.sum(1));
}

void unpermute_grad(Optional tokens, const Tensor& grad, const Tensor& sorted, Optional probs,
                    const Tensor& tokens_grad, Optional probs_grad) {
    const auto up = widen(grad);
    const auto k = probs ? probs->size(1) : per_token(sorted.numel(), grad.size(0));
    auto each = up.unsqueeze(1).expand({up.size(0), k, up.size(1)});
    if (probs) {
        TORCH_CHECK(tokens && probs_grad,
                    "probsOptional is given, but permuteTokensOptional or probsGradOut is null");
        const auto seen = gather_rows(tokens->to(up.scalar_type()), sorted).view({-1, k, up.size(1)});
        write(*probs_grad, (each * seen).sum(-1));
        each = each * probs->to(up.scalar_type()).unsqueeze(-1);
    }
    write(tokens_grad, place_rows(each.reshape({-1, up.size(1)}), sorted, tokens_grad.size(0)));
}

// ---- by a routing map (tokens, experts)

// For every expert in turn, its tokens in order: (numbers of the tokens).
Tensor tokens_by_expert(const Tensor& map) {
    const auto tokens = at::arange(map.size(0), map.options().dtype(at::kLong));
    return tokens.unsqueeze(0).expand({map.size(1), map.size(0)}).masked_select(map.to(at::kBool).t());
}

// With capacities: the first `capacity` tokens of every expert, filled up with tokens that are not routed to
// it.
Tensor tokens_by_capacity(const Tensor& map, int64_t capacity) {
    const auto order = at::argsort(map.to(at::kBool).to(at::kChar).t().contiguous(), /*stable=*/true, -1,
                                   /*descending=*/true);
    return order.narrow(1, 0, capacity).reshape({-1});
}

Tensor experts_by_capacity(int64_t experts, int64_t capacity, const Tensor& like) {
    return at::arange(experts, like.options().dtype(at::kLong)).repeat_interleave(capacity);
}

void map_permute(const Tensor& tokens, const Tensor& map, Optional probs, int64_t wanted, bool pad,
                 const Tensor& out, Optional probs_out, const Tensor& sorted) {
    const auto experts = map.size(1);
    TORCH_CHECK(!probs || probs_out, "probsOptional is given, but permuteProbsOutOptional is null");
    if (pad) {
        const auto capacity = wanted / experts;
        const auto source = tokens_by_capacity(map, capacity);
        write(out, tokens.index_select(0, source));
        write(sorted, source.reshape(sorted.sizes()));
        if (probs) {
            write(*probs_out, probs->index({source, experts_by_capacity(experts, capacity, source)}));
        }
        return;
    }
    const auto source = tokens_by_expert(map);
    TORCH_CHECK(source.numel() == out.size(0), "routingMap routes ", source.numel(),
                " tokens, the output has ", out.size(0),
                " rows: every token needs the same number of experts");
    write(out, tokens.index_select(0, source));
    write(sorted, at::argsort(source, /*stable=*/true, 0, /*descending=*/false).reshape(sorted.sizes()));
    if (probs) write(*probs_out, probs->t().masked_select(map.to(at::kBool).t()));
}

Tensor scatter_by_map(const Tensor& values, const Tensor& map) {
    const auto mask = map.to(at::kBool).t();
    return at::zeros(mask.sizes(), values.options()).masked_scatter(mask, values).t();
}

void map_permute_grad(const Tensor& grad, Optional probs_grad, const Tensor& sorted, Optional map,
                      int64_t experts, int64_t tokens, bool pad, const Tensor& out, Optional probs_out) {
    const auto up = widen(grad);
    const auto capacity = grad.size(0) / std::max<int64_t>(1, experts);
    write(out,
          pad ? place_rows(up, sorted, tokens)
              : gather_rows(up, sorted).view({tokens, per_token(sorted.numel(), tokens), up.size(1)}).sum(1));
    if (!probs_grad || !probs_out) return;
    if (pad) {
        auto full = at::zeros({tokens, experts}, probs_grad->options());
        full.index_put_({rows_of(sorted), experts_by_capacity(experts, capacity, sorted)}, *probs_grad);
        return write(*probs_out, full);
    }
    TORCH_CHECK(map, "permutedProbsOutputGradOptional is given, but routingMapOptional is null");
    write(*probs_out, scatter_by_map(*probs_grad, *map));
}

void map_unpermute(const Tensor& tokens, const Tensor& sorted, Optional map, Optional probs, bool pad,
                   const Tensor& out, const Tensor& out_index, const Tensor& token_id, Optional probs_out) {
    auto value = widen(tokens);
    Tensor weight;
    if (probs) {
        TORCH_CHECK(pad || map, "probsOptional is given, but routingMapOptional is null");
        const auto experts = probs->size(1);
        weight = pad ? probs->index(
                           {rows_of(sorted), experts_by_capacity(experts, sorted.numel() / experts, sorted)})
                     : probs->t().masked_select(map->to(at::kBool).t());
        TORCH_CHECK(weight.numel() == value.size(0), "there are ", weight.numel(), " routed tokens and ",
                    value.size(0), " rows of permutedTokens");
        value = value * weight.to(value.scalar_type()).unsqueeze(1);
        TORCH_CHECK(probs_out, "probsOptional is given, but permuteProbs is null");
        write(*probs_out, weight);
    }
    if (pad) {
        const auto [ids, index] = at::sort(rows_of(sorted), /*stable=*/true, 0, /*descending=*/false);
        write(token_id, ids.reshape(token_id.sizes()));
        write(out_index, index.reshape(out_index.sizes()));
        return write(out, place_rows(value, sorted, out.size(0)));
    }
    const auto k = per_token(sorted.numel(), out.size(0));
    write(out, gather_rows(value, sorted).view({-1, k, value.size(1)}).sum(1));
    write(out_index, sorted);
    write(token_id, at::arange(out.size(0), sorted.options().dtype(at::kLong))
                        .repeat_interleave(k)
                        .reshape(token_id.sizes()));
}

// Without padding, place i belongs to token i / k: torch_npu hands the sorted indices in the place of the
// tokens' too.
void map_unpermute_grad(const Tensor& grad, const Tensor& out_index, const Tensor& token_id, Optional map,
                        Optional tokens, Optional probs, bool pad, const Tensor& tokens_grad,
                        Optional probs_grad) {
    const auto up = widen(grad);
    const auto places = out_index.numel();
    const auto source = pad ? rows_of(token_id)
                            : at::arange(up.size(0), up.options().dtype(at::kLong))
                                  .repeat_interleave(per_token(places, up.size(0)));
    // Row by row of the permuted tokens: what arrives there.
    const auto arrived = place_rows(up.index_select(0, source), out_index, tokens_grad.size(0));
    if (!probs) return write(tokens_grad, arrived);
    TORCH_CHECK(tokens && probs_grad && (pad || map),
                "probsOptional is given, but permutedTokensOptional, routingMapOptional or "
                "probsGradOutOptional is null");
    const auto slope = (arrived * tokens->to(up.scalar_type())).sum(-1);
    const auto experts = probs->size(1);
    if (!pad) {
        const auto weight = probs->t().masked_select(map->to(at::kBool).t()).to(up.scalar_type());
        write(tokens_grad, arrived * weight.unsqueeze(1));
        return write(*probs_grad, scatter_by_map(slope, *map));
    }
    // Back from the sort: which token each row is of.
    auto token = at::empty_like(source);
    token.index_copy_(0, rows_of(out_index), source);
    const auto expert = experts_by_capacity(experts, places / std::max<int64_t>(1, experts), source);
    write(tokens_grad, arrived * probs->index({token, expert}).to(up.scalar_type()).unsqueeze(1));
    auto full = at::zeros(probs->sizes(), slope.options());
    full.index_put_({token, expert}, slope);
    write(*probs_grad, full);
}

const Table table{
    {"aclnnMoeTokenPermute",
     [](const Tensor& tokens, const Tensor& indices, int64_t wanted, bool padded, const Tensor& out,
        const Tensor& sorted) {
         check_unpadded(padded);
         permute(tokens, indices, wanted, out, sorted);
     }},
    {"aclnnMoeTokenPermuteGrad",
     [](const Tensor& grad, const Tensor& sorted, int64_t k, bool padded, const Tensor& out) {
         check_unpadded(padded);
         permute_grad(grad, sorted, k, out);
     }},
    // restoreShapeOptional only counts in the padded mode.
    {"aclnnMoeTokenUnpermute",
     [](const Tensor& tokens, const Tensor& sorted, Optional probs, bool padded, IntArrayRef,
        const Tensor& out) {
         check_unpadded(padded);
         unpermute(tokens, sorted, probs, out);
     }},
    {"aclnnMoeTokenUnpermuteGrad",
     [](Optional tokens, const Tensor& grad, const Tensor& sorted, Optional probs, bool padded, IntArrayRef,
        const Tensor& tokens_grad, Optional probs_grad) {
         check_unpadded(padded);
         unpermute_grad(tokens, grad, sorted, probs, tokens_grad, probs_grad);
     }},
    {"aclnnMoeTokenPermuteWithRoutingMap",
     [](const Tensor& tokens, const Tensor& map, Optional probs, int64_t wanted, bool pad, const Tensor& out,
        Optional probs_out,
        const Tensor& sorted) { map_permute(tokens, map, probs, wanted, pad, out, probs_out, sorted); }},
    {"aclnnMoeTokenPermuteWithRoutingMapGrad",
     [](const Tensor& grad, Optional probs_grad, const Tensor& sorted, Optional map, int64_t experts,
        int64_t tokens, bool pad, const Tensor& out, Optional probs_out) {
         map_permute_grad(grad, probs_grad, sorted, map, experts, tokens, pad, out, probs_out);
     }},
    {"aclnnMoeTokenUnpermuteWithRoutingMap",
     [](const Tensor& tokens, const Tensor& sorted, Optional map, Optional probs, bool pad, IntArrayRef,
        const Tensor& out, const Tensor& out_index, const Tensor& token_id, Optional probs_out) {
         map_unpermute(tokens, sorted, map, probs, pad, out, out_index, token_id, probs_out);
     }},
    {"aclnnMoeTokenUnpermuteWithRoutingMapGrad",
     [](const Tensor& grad, const Tensor& out_index, const Tensor& token_id, Optional map, Optional tokens,
        Optional probs, bool pad, IntArrayRef, const Tensor& tokens_grad, Optional probs_grad) {
         map_unpermute_grad(grad, out_index, token_id, map, tokens, probs, pad, tokens_grad, probs_grad);
     }},
};

}  // namespace
}  // namespace npu::emulator
