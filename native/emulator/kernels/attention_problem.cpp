#include "kernels/attention_problem.h"

#include <algorithm>

namespace npu::emulator {
namespace {

constexpr int64_t kCompressedMask = 2048;  // sparse modes 2, 3 and 4 take a triangle of this size

std::vector<int64_t> starts(const std::vector<int64_t>& ends) {
    std::vector<int64_t> result(ends.size(), 0);
    std::copy(ends.begin(), ends.end() - 1, result.begin() + 1);
    return result;
}

Tensor with_rope(const Tensor& head_part, const std::optional<Tensor>& rope,
                 const AttentionProblem& problem) {
    return rope ? at::cat({head_part, problem.view_rows(rope->to(at::kFloat))}, -1) : head_part;
}

// The triangle that the compressed modes want: true above the diagonal. Three elements tell a triangle from
// its mirror image.
void check_triangle(const Tensor& mask, int64_t mode) {
    const auto size = mask.sizes();
    TORCH_CHECK(
        mask.dim() >= 2 && size[mask.dim() - 1] == kCompressedMask && size[mask.dim() - 2] >= kCompressedMask,
        "atten_mask of sparse_mode ", mode, " must be the compressed [2048, 2048] triangle, got shape ",
        size);
    const Tensor flat = mask.reshape({-1, size[mask.dim() - 2], kCompressedMask})[0];
    TORCH_CHECK(flat[0][1].item<bool>() && !flat[0][0].item<bool>() && !flat[1][0].item<bool>(),
                "atten_mask of sparse_mode ", mode,
                " must be true above the diagonal only (torch.triu(ones, diagonal=1))");
}

}  // namespace

AttentionProblem::AttentionProblem(const AttentionInputs& in, const AttentionOptions& given)
    : options(given), packed_(given.layout == "TND") {
    TORCH_CHECK(options.sparse_mode >= 0 && options.sparse_mode <= 6, "sparse_mode ", options.sparse_mode,
                " is not implemented by the host emulator (0 to 6 are)");
    TORCH_CHECK(options.pse_type == 0 || options.pse_type == 1, "pse_type ", options.pse_type,
                " is not implemented by the host emulator (0 and 1 are)");
    TORCH_CHECK(options.heads > 0, "head_num must be positive, got ", options.heads);
    query = with_rope(view_rows(in.query.to(at::kFloat)), in.query_rope, *this);
    key = with_rope(view_rows(in.key.to(at::kFloat)), in.key_rope, *this);
    value = view_rows(in.value.to(at::kFloat));
    const int64_t kv_heads = key.size(1);
    TORCH_CHECK(query.size(1) == options.heads, "query has ", query.size(1), " heads, head_num says ",
                options.heads);
    TORCH_CHECK(kv_heads > 0 && options.heads % kv_heads == 0 && value.size(1) == kv_heads,
                "the heads of query (", options.heads, ") must be a multiple of key's (", kv_heads,
                ") and value's (", value.size(1), ")");
    TORCH_CHECK(query.size(3) == key.size(3), "query and key differ in head size: ", query.size(3), ", ",
                key.size(3));
    TORCH_CHECK(key.size(2) == value.size(2) && query.size(0) == key.size(0) && key.size(0) == value.size(0),
                "query, key and value do not fit together: ", in.query.sizes(), ", ", in.key.sizes(), ", ",
                in.value.sizes());
    group = options.heads / kv_heads;
    read_sequences();
    read_mask(in);
    if (in.pse && in.pse->numel() > 0) {
        TORCH_CHECK(!packed_, "pse with layout TND is not implemented by the host emulator");
        pse = in.pse->to(at::kFloat).expand({query.size(0), options.heads, query.size(2), key.size(2)});
    }
    if (in.drop_mask && in.drop_mask->numel() > 0) {
        drop_mask_ = in.drop_mask->contiguous().view({-1});
        int64_t bits = 0;
        for (auto& sequence : sequences) {
            drop_starts_.push_back(bits);
            bits += options.heads * sequence.q_length * sequence.kv_length;
        }
        TORCH_CHECK(drop_mask_.numel() * 8 >= bits, "drop_mask has ", drop_mask_.numel(), " bytes, ", bits,
                    " bits are needed");
    } else {
        TORCH_CHECK(options.keep_prob == 1.0, "keep_prob is ", options.keep_prob,
                    " but no drop_mask was given");
    }
}

void AttentionProblem::read_sequences() {
    if (!packed_) {
        for (int64_t batch = 0; batch < query.size(0); ++batch) {
            sequences.push_back({batch, 0, query.size(2), 0, key.size(2)});
        }
        return;
    }
    const auto &q_ends = options.q_ends, &kv_ends = options.kv_ends;
    TORCH_CHECK(!q_ends.empty() && q_ends.size() == kv_ends.size(),
                "layout TND needs actual_seq_qlen and actual_seq_kvlen of the same length, got ",
                q_ends.size(), " and ", kv_ends.size(), " entries");
    const auto q_starts = starts(q_ends), kv_starts = starts(kv_ends);
    for (std::size_t i = 0; i < q_ends.size(); ++i) {
        TORCH_CHECK(q_ends[i] >= q_starts[i] && kv_ends[i] >= kv_starts[i],
                    "actual_seq_qlen and actual_seq_kvlen are cumulative and must not fall; entry ", i,
                    " does");
        sequences.push_back(
            {0, q_starts[i], q_ends[i] - q_starts[i], kv_starts[i], kv_ends[i] - kv_starts[i]});
    }
    // Rows behind the last sequence would be left unwritten.
    TORCH_CHECK(q_ends.back() == query.size(2) && kv_ends.back() == key.size(2),
                "the last entries of actual_seq_qlen (", q_ends.back(), ") and actual_seq_kvlen (",
                kv_ends.back(), ") must be the numbers of tokens (", query.size(2), ", ", key.size(2), ")");
}

void AttentionProblem::read_mask(const AttentionInputs& in) {
    hides_ =
        in.mask && in.mask->numel() > 0;  // without a mask, sparse_mode and the token windows have no effect
    if (!hides_) return;
    if (options.sparse_mode >= 2 && options.sparse_mode != 5) {
        check_triangle(*in.mask, options.sparse_mode);
        TORCH_CHECK(options.sparse_mode != 6 || options.prefix.size() == sequences.size(),
                    "sparse_mode 6 needs one prefix per sequence, got ", options.prefix.size(), " for ",
                    sequences.size());
        return;
    }
    Tensor given = in.mask->to(at::kBool);
    int64_t rows = query.size(2), columns = key.size(2);
    if (packed_) {  // rows and columns count within a sequence
        rows = columns = 0;
        for (auto& sequence : sequences) {
            rows = std::max(rows, sequence.q_length);
            columns = std::max(columns, sequence.kv_length);
        }
        TORCH_CHECK(given.dim() >= 2 && given.size(-2) >= rows && given.size(-1) >= columns,
                    "atten_mask of shape ", given.sizes(), " does not cover the longest sequence (", rows,
                    ", ", columns, ")");
        rows = given.size(-2);
        columns = given.size(-1);
    }
    const int64_t batch = packed_ ? static_cast<int64_t>(sequences.size()) : query.size(0);
    mask = given.expand({batch, options.heads, rows, columns});
}

Tensor AttentionProblem::view_rows(const Tensor& tensor) const {
    const auto& layout = options.layout;
    if (packed_) {
        TORCH_CHECK(tensor.dim() == 3, "layout TND takes tensors of 3 dimensions, got shape ",
                    tensor.sizes());
        return tensor.permute({1, 0, 2}).unsqueeze(0);
    }
    if (layout == "BNSD" || layout == "BSND") {
        TORCH_CHECK(tensor.dim() == 4, "layout ", layout, " takes tensors of 4 dimensions, got shape ",
                    tensor.sizes());
        return layout == "BNSD" ? tensor : tensor.permute({0, 2, 1, 3});
    }
    TORCH_CHECK(layout == "BSH" || layout == "SBH", "input_layout must be BSH, SBH, BSND, BNSD or TND, got ",
                layout);
    TORCH_CHECK(tensor.dim() == 3, "layout ", layout, " takes tensors of 3 dimensions, got shape ",
                tensor.sizes());
    // H = N * D with the query's D for all three: grouped key/value heads have fewer heads, not smaller ones.
    const int64_t head_size = query.defined() ? query.size(3) : tensor.size(2) / options.heads;
    TORCH_CHECK(head_size > 0 && tensor.size(2) % head_size == 0, "the hidden size ", tensor.size(2),
                " is not a multiple of the head size ", head_size);
    const Tensor split = tensor.unflatten(2, {tensor.size(2) / head_size, head_size});
    return layout == "BSH" ? split.permute({0, 2, 1, 3}) : split.permute({1, 2, 0, 3});
}

Tensor AttentionProblem::view_statistic(const Tensor& statistic) const {
    return packed_ ? statistic.permute({1, 0, 2}).unsqueeze(0) : statistic;
}

Tensor AttentionProblem::rows(const Tensor& view, int64_t batch, int64_t head, int64_t first,
                              int64_t count) const {
    const auto strides = view.strides();
    return view.as_strided(
        {count, view.size(3)}, {strides[2], strides[3]},
        view.storage_offset() + batch * strides[0] + head * strides[1] + first * strides[2]);
}

void AttentionProblem::split_rope(const Tensor& gradient, const Tensor& head_part,
                                  const std::optional<Tensor>& rope_part) const {
    const int64_t head_size = head_part.size(3);
    write(head_part, gradient.narrow(3, 0, head_size));
    if (rope_part) write(view_rows(*rope_part), gradient.narrow(3, head_size, gradient.size(3) - head_size));
}

Range AttentionProblem::visible_row(const Sequence& sequence, int64_t row) const {
    const int64_t all = sequence.kv_length;
    if (!hides_) return {0, all};
    const int64_t right_down = row + sequence.kv_length - sequence.q_length;
    auto clip = [all](int64_t begin, int64_t end) {
        return Range{std::clamp<int64_t>(begin, 0, all), std::clamp<int64_t>(end, 0, all)};
    };
    switch (options.sparse_mode) {
        case 0:
            return clip(row - options.pre_tokens, row + options.next_tokens + 1);
        case 2:
            return clip(0, row + 1);
        case 3:
            return clip(0, right_down + 1);
        case 4:
            return clip(right_down - options.pre_tokens, right_down + options.next_tokens + 1);
        case 6: {
            const auto which = packed_ ? &sequence - sequences.data() : sequence.index;
            return clip(0, std::max(right_down + 1, options.prefix[which]));
        }
        default:
            return {0, all};
    }
}

Range AttentionProblem::visible_keys(const Sequence& sequence, int64_t q0, int64_t count) const {
    Range range{sequence.kv_length, 0};
    for (int64_t row = q0; row < q0 + count; ++row) {
        const auto seen = visible_row(sequence, row);
        if (seen.begin >= seen.end) continue;
        range.begin = std::min(range.begin, seen.begin);
        range.end = std::max(range.end, seen.end);
    }
    return range;
}

Range AttentionProblem::visible_columns(const Sequence& sequence, const Tile& tile, int64_t row) const {
    const auto seen = visible_row(sequence, tile.q0 + row);
    const int64_t begin = std::clamp<int64_t>(seen.begin - tile.k0, 0, tile.columns);
    return {begin, std::clamp<int64_t>(seen.end - tile.k0, begin, tile.columns)};
}

void AttentionProblem::scores(const Tensor& q, const Sequence& sequence, int64_t head, const Tile& tile,
                              Tensor& result) const {
    const Tensor k = rows(key, sequence.index, head / group, sequence.kv_start + tile.k0, tile.columns);
    at::addmm_out(result, result, q, k.t(), 0, options.scale);
    if (pse) {
        const Tensor shift = pse->select(0, sequence.index)
                                 .select(0, head)
                                 .narrow(0, tile.q0, tile.rows)
                                 .narrow(1, tile.k0, tile.columns);
        result.add_(shift, options.pse_type == 1 ? options.scale : 1.0);
    }
    if (!mask) return;
    const int64_t batch = packed_ ? &sequence - sequences.data() : sequence.index;
    result.masked_fill_(
        mask->select(0, batch).select(0, head).narrow(0, tile.q0, tile.rows).narrow(1, tile.k0, tile.columns),
        -std::numeric_limits<float>::infinity());
}

Tensor AttentionProblem::keep(const Sequence& sequence, int64_t head, const Tile& tile) const {
    Tensor result = at::empty({tile.rows, tile.columns}, at::kFloat);
    float* data = result.data_ptr<float>();
    const uint8_t* bits = drop_mask_.data_ptr<uint8_t>();
    const float kept = options.keep_prob > 0 ? static_cast<float>(1.0 / options.keep_prob) : 0.0f;
    const int64_t first =
        drop_starts_[&sequence - sequences.data()] + head * sequence.q_length * sequence.kv_length;
    for (int64_t row = 0; row < tile.rows; ++row) {
        int64_t bit = first + (tile.q0 + row) * sequence.kv_length + tile.k0;
        for (int64_t column = 0; column < tile.columns; ++column, ++bit) {
            *data++ = (bits[bit >> 3] >> (bit & 7)) & 1 ? kept : 0.0f;
        }
    }
    return result;
}

}  // namespace npu::emulator
