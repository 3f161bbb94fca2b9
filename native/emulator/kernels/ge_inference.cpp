// GE's attention for inference: queries against a key/value cache whose entries may be of different lengths,
// whole or in pages. Quantisation, shared prefixes and rotary parts are refused by name.
#include "kernels/attention.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;
using List = const std::vector<Tensor>&;
using Number = std::optional<int64_t>;
using Real = std::optional<double>;
using Text = const std::optional<std::string>&;

void refuse(std::initializer_list<std::pair<const char*, const std::optional<Tensor>*>> inputs) {
    for (const auto& [name, given] : inputs)
        TORCH_CHECK(!*given || (*given)->numel() == 0, name, " is not implemented by the host emulator");
}

// (B, N, S, D) out of BSH (B, S, N * D), BSND (B, S, N, D) or BNSD.
Tensor heads_first(const Tensor& x, const std::string& layout, int64_t heads) {
    if (layout == "BNSD") return x;
    if (layout == "BSND") return x.transpose(1, 2);
    TORCH_CHECK(layout == "BSH", "input_layout is ", layout,
                "; the host emulator implements BSH, BSND, BNSD and BNSD_BSND");
    TORCH_CHECK(x.dim() == 3 && x.size(2) % heads == 0, "a tensor of layout BSH has shape ", x.sizes(),
                " for ", heads, " heads");
    return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

// Key or value of one entry of the batch, (1, N, S, D).
class Cache {
  public:
    Cache(List tensors, Optional pages, const std::string& layout, int64_t heads)
        : tensors_(tensors), pages_(pages ? pages->to(at::kLong) : Tensor()), layout_(layout), heads_(heads) {
        TORCH_CHECK(!tensors.empty(), "no key or value is given");
    }
    int64_t length(int64_t entry) const {
        TORCH_CHECK(!pages_.defined(), "actual_seq_lengths of the keys is needed with a block_table");
        return of(entry).size(2);
    }
    Tensor of(int64_t entry, int64_t length = -1) const {
        if (pages_.defined()) return paged(entry, length);
        if (tensors_.size() > 1) return heads_first(tensors_.at(entry), layout_, heads_);
        return heads_first(tensors_[0], layout_, heads_).narrow(0, entry, 1);
    }

  private:
    // Pages are (pages, size, N * D), or (pages, N, size, D).
    Tensor paged(int64_t entry, int64_t length) const {
        const auto& cache = tensors_[0];
        const auto size = cache.size(cache.dim() == 3 ? 1 : 2);
        const auto count = (length + size - 1) / size;
        TORCH_CHECK(count <= pages_.size(1), "entry ", entry, " of length ", length, " needs ", count,
                    " pages, block_table has ", pages_.size(1));
        const auto chosen = cache.index_select(0, pages_[entry].narrow(0, 0, count));
        if (cache.dim() == 3) return heads_first(chosen.reshape({1, count * size, -1}), "BSH", heads_);
        return chosen.transpose(0, 1).reshape({1, cache.size(1), count * size, cache.size(3)});
    }

    List tensors_;
    Tensor pages_;
    const std::string& layout_;
    int64_t heads_;
};

// (B or 1, 1, S of queries, S of keys); a query of one token may leave its dimension out.
std::optional<Tensor> mask_of(Optional mask, const Tensor& query) {
    if (!mask || mask->numel() == 0) return std::nullopt;
    if (mask->dim() == 4) return mask;
    if (mask->dim() == 3) return mask->unsqueeze(1);
    TORCH_CHECK(mask->dim() == 2, "atten_mask has shape ", mask->sizes(),
                ", two to four dimensions are needed");
    const bool by_entry = query.size(2) == 1 && mask->size(0) == query.size(0);
    return by_entry ? mask->view({-1, 1, 1, mask->size(1)})
                    : mask->view({1, 1, mask->size(0), mask->size(1)});
}

Tensor entry_of(const Tensor& x, int64_t entry) { return x.size(0) == 1 ? x : x.narrow(0, entry, 1); }

struct Lengths {
    IntArrayRef given;
    int64_t of(int64_t entry, int64_t otherwise) const {
        if (given.empty()) return otherwise;
        TORCH_CHECK(given.size() == 1 || entry < static_cast<int64_t>(given.size()),
                    "actual_seq_lengths has ", given.size(), " entries, the batch more");
        return given[given.size() == 1 ? 0 : entry];
    }
};

struct Call {
    AttentionOptions options;
    Number kv_heads;
    Lengths query_lengths, kv_lengths;
};

// Rows behind an entry's length become 0.
void attend(const Tensor& given_query, List keys, List values, Optional pse, Optional given_mask,
            Optional pages, const Call& call, const Tensor& out, Optional lse) {
    const auto layout = call.options.layout == "BNSD_BSND" ? "BNSD" : call.options.layout;
    const auto heads = call.options.heads;
    const auto kv_heads = call.kv_heads.value_or(0) == 0 ? heads : *call.kv_heads;
    const auto query = heads_first(given_query, layout, heads);
    const auto mask = mask_of(given_mask, query);
    const Cache key(keys, pages, layout, kv_heads), value(values, pages, layout, kv_heads);
    auto options = call.options;
    options.layout = "BNSD";
    const auto head_size = query.size(3);
    auto result = at::zeros(query.sizes(), query.options().dtype(at::kFloat));
    auto logs = at::full({query.size(0), heads, query.size(2), 1}, std::numeric_limits<float>::infinity(),
                         at::kFloat);
    for (int64_t entry = 0; entry < query.size(0); ++entry) {
        const auto rows = call.query_lengths.of(entry, query.size(2));
        const auto columns = call.kv_lengths.given.empty() ? key.length(entry) : call.kv_lengths.of(entry, 0);
        if (rows == 0 || columns == 0) continue;
        AttentionInputs in;
        in.query = query.narrow(0, entry, 1).narrow(2, 0, rows);
        in.key = key.of(entry, columns).narrow(2, 0, columns);
        in.value = value.of(entry, columns).narrow(2, 0, columns);
        if (pse && pse->numel() > 0) in.pse = entry_of(*pse, entry).slice(2, 0, rows).slice(3, 0, columns);
        if (mask) {
            const bool whole = options.sparse_mode < 2;  // else the triangle that fits any length
            in.mask = entry_of(*mask, entry);
            if (whole) in.mask = in.mask->slice(2, 0, rows).slice(3, 0, columns).to(at::kBool);
        }
        TORCH_CHECK(in.value.size(3) == head_size, "query and value differ in head size: ", head_size, ", ",
                    in.value.size(3));
        const auto max = at::empty({1, heads, rows, 8}, at::kFloat), sum = at::empty_like(max);
        const auto part = at::empty({1, heads, rows, head_size}, at::kFloat);
        attention_forward(in, options, max, sum, part);
        result.narrow(0, entry, 1).narrow(2, 0, rows).copy_(part);
        auto log_sum = (max + at::log(sum)).masked_fill_(sum == 0, std::numeric_limits<float>::infinity());
        logs.narrow(0, entry, 1).narrow(2, 0, rows).copy_(log_sum.narrow(3, 0, 1));
    }
    const bool sequence_first = call.options.layout != "BNSD";
    const auto ordered = sequence_first ? result.transpose(1, 2) : result;
    write(out, call.options.layout == "BSH" ? ordered.flatten(2) : ordered);
    if (!lse) return;
    if (lse->numel() == logs.numel()) {
        lse->copy_(logs.view(lse->sizes()));
    } else {
        lse->zero_();
    }
}

AttentionOptions options_of(int64_t heads, Real scale, Number pre, Number next, Text layout, Number sparse) {
    AttentionOptions options;
    options.heads = heads;
    options.scale = scale.value_or(1);
    options.pre_tokens = pre.value_or(options.pre_tokens);
    options.next_tokens = next.value_or(options.next_tokens);
    options.layout = layout.value_or("BSH");
    options.sparse_mode = sparse.value_or(0);
    return options;
}

void prompt(const Tensor& query, const Tensor& key, const Tensor& value, Optional pse, Optional mask,
            IntArrayRef lengths, IntArrayRef kv_lengths, Optional deq1, Optional quant1, Optional deq2,
            Optional quant2, Optional offset2, int64_t heads, Real scale, Number pre, Number next,
            Text layout, Number kv_heads, Number sparse, Number, const Tensor& out) {
    refuse({{"deq_scale1", &deq1},
            {"quant_scale1", &quant1},
            {"deq_scale2", &deq2},
            {"quant_scale2", &quant2},
            {"quant_offset2", &offset2}});
    const Call call{
        options_of(heads, scale, pre, next.value_or(0), layout, sparse), kv_heads, {lengths}, {kv_lengths}};
    attend(query, {key}, {value}, pse, mask, std::nullopt, call, out, std::nullopt);
}

void incremental(const Tensor& query, List key, List value, Optional pse, Optional mask, IntArrayRef lengths,
                 Optional deq1, Optional quant1, Optional deq2, Optional quant2, Optional offset2,
                 Optional antiquant_scale, Optional antiquant_offset, Optional pages, Optional padding,
                 int64_t heads, Real scale, Text layout, Number kv_heads, Number, Number, const Tensor& out) {
    refuse({{"dequant_scale1", &deq1},
            {"quant_scale1", &quant1},
            {"dequant_scale2", &deq2},
            {"quant_scale2", &quant2},
            {"quant_offset2", &offset2},
            {"antiquant_scale", &antiquant_scale},
            {"antiquant_offset", &antiquant_offset},
            {"kv_padding_size", &padding}});
    const Call call{options_of(heads, scale, {}, {}, layout, 0), kv_heads, {}, {lengths}};
    attend(query, key, value, pse, mask, pages, call, out, std::nullopt);
}

void fused(const Tensor& query, List key, List value, Optional pse, Optional mask, IntArrayRef lengths,
           IntArrayRef kv_lengths, Optional deq1, Optional quant1, Optional deq2, Optional quant2,
           Optional offset2, Optional antiquant_scale, Optional antiquant_offset, Optional pages,
           Optional query_padding, Optional kv_padding, Optional key_scale, Optional key_offset,
           Optional value_scale, Optional value_offset, Optional key_prefix, Optional value_prefix,
           Optional prefix_length, Optional query_rope, Optional key_rope, Optional rope_scale,
           Optional query_scale, Optional sink, Optional, Optional, int64_t heads, Real scale, Number pre,
           Number next, Text layout, Number kv_heads, Number sparse, Number, Number,
           std::optional<bool> want_lse, const Tensor& out, Optional lse) {
    refuse({{"dequant_scale1", &deq1},
            {"quant_scale1", &quant1},
            {"dequant_scale2", &deq2},
            {"quant_scale2", &quant2},
            {"quant_offset2", &offset2},
            {"antiquant_scale", &antiquant_scale},
            {"antiquant_offset", &antiquant_offset},
            {"query_padding_size", &query_padding},
            {"kv_padding_size", &kv_padding},
            {"key_antiquant_scale", &key_scale},
            {"key_antiquant_offset", &key_offset},
            {"value_antiquant_scale", &value_scale},
            {"value_antiquant_offset", &value_offset},
            {"key_shared_prefix", &key_prefix},
            {"value_shared_prefix", &value_prefix},
            {"actual_shared_prefix_len", &prefix_length},
            {"query_rope", &query_rope},
            {"key_rope", &key_rope},
            {"key_rope_antiquant_scale", &rope_scale},
            {"dequant_scale_query", &query_scale},
            {"learnable_sink", &sink}});
    const Call call{options_of(heads, scale, pre, next, layout, sparse), kv_heads, {lengths}, {kv_lengths}};
    attend(query, key, value, pse, mask, pages, call, out, lse);
    if (lse && !want_lse.value_or(false)) lse->zero_();
}

const Table table{
    {Ge{"PromptFlashAttention",
        {"num_heads", "scale_value", "pre_tokens", "next_tokens", "input_layout", "num_key_value_heads",
         "sparse_mode", "inner_precise"}},
     prompt},
    {Ge{"IncreFlashAttention",
        {"num_heads", "scale_value", "input_layout", "num_key_value_heads", "block_size", "inner_precise"}},
     incremental},
    {Ge{"FusedInferAttentionScore",
        {"num_heads", "scale", "pre_tokens", "next_tokens", "input_layout", "num_key_value_heads",
         "sparse_mode", "inner_precise", "block_size", "softmax_lse_flag", "antiquant_mode?=0",
         "key_antiquant_mode?=0", "value_antiquant_mode?=0", "query_quant_mode?=0", "pse_type?=0",
         "out_dtype?=0"}},
     fused},
};

}  // namespace
}  // namespace npu::emulator
