// Attention and rotary embeddings. Layouts are spelt as CANN's input_layout does: B batch, S sequence, N
// heads, D head size, H = N * D, T = B * S.
#include "graph/shapes.h"

namespace npu::graph {
namespace {

constexpr int64_t kStatistics = 8;  // copies of each row's maximum and sum

struct Layout {
    std::string_view name;
    int rank;
    int batch, sequence, heads;  ///< places of the dimensions, -1: there is none
};

constexpr Layout kLayouts[] = {
    {"BSH", 3, 0, 1, -1}, {"SBH", 3, 1, 0, -1}, {"BSND", 4, 0, 1, 2},
    {"BNSD", 4, 0, 2, 1}, {"TND", 3, -1, 0, 1},
};

const Layout& layout_of(const Context& c) {
    for (const Layout& layout : kLayouts)
        if (layout.name == c.text("input_layout")) return layout;
    c.fail("the layout " + c.text("input_layout") + " is not supported; BSH, SBH, BSND, BNSD and TND are");
}

const Dims& checked(const Context& c, Key input, const Layout& layout) {
    const Dims& dims = c.dims(input);
    if (static_cast<int>(dims.size()) != layout.rank)
        c.fail("the layout " + std::string(layout.name) + " has " + std::to_string(layout.rank) +
               " dimensions");
    return dims;
}

int64_t head_count(const Context& c, const char* attribute) {
    int64_t heads = c.integer(attribute);
    if (heads <= 0) c.fail(std::string("its attribute ") + attribute + " is " + std::to_string(heads));
    return heads;
}

/// The query's shape with the head size of value, which may differ from that of query and key.
Dims attended(const Context& c, const Layout& layout, const char* heads) {
    Dims out = checked(c, "query", layout);
    const Dims& value = checked(c, "value", layout);
    if (layout.heads >= 0) {
        out.back() = value.back();
        return out;
    }
    // H: the head size of the key follows from the query's, and with it the number of key and value heads.
    int64_t count = head_count(c, heads), query = out.back(), key = checked(c, "key", layout).back();
    if (query < 0 || key < 0 || value.back() < 0) return out.back() = kUnknown, out;
    if (query % count != 0 || key % std::max<int64_t>(query / count, 1) != 0)
        c.fail("the heads do not divide the hidden size");
    int64_t key_heads = query == 0 ? 0 : key / (query / count);
    if (key_heads == 0 || value.back() % key_heads != 0)
        c.fail("the value's hidden size does not fit the key's heads");
    out.back() = times(c, value.back() / key_heads, count);
    return out;
}

Dims row_statistics(const Context& c, const Layout& layout, int64_t heads) {
    const Dims& query = checked(c, "query", layout);
    if (layout.batch < 0) return {query[0], query[1], kStatistics};
    return {query[layout.batch], heads, query[layout.sequence], kStatistics};
}

void refuse(const Context& c, std::initializer_list<const char*> inputs, const char* what) {
    for (const char* input : inputs)
        if (c.has(input)) c.fail(std::string("its input ") + input + " (" + what + ") is not supported");
}

void flash_attention(Context& c) {
    refuse(c, {"d_scale_q", "d_scale_k", "d_scale_v", "p_scale"}, "quantised attention");
    const Layout& layout = layout_of(c);
    int64_t heads = head_count(c, "head_num");
    for (int output = 0; output < 2; ++output)
        c.out(ACL_FLOAT, [&] { return row_statistics(c, layout, heads); });
    c.out(c.dtype("query"), [] { return Dims{0}; });
    c.out(c.dtype("query"), [&] { return attended(c, layout, "head_num"); });
}

/// The gradient of an optional input, or an empty tensor.
void gradient(Context& c, const char* input) {
    if (c.has(input))
        c.out(c.in(input).type);
    else
        c.out(c.dtype("query"), [] { return Dims{0}; });
}

void flash_attention_grad(Context& c) {
    refuse(c, {"d_scale_q", "d_scale_k", "d_scale_v", "d_scale_dy", "d_scale_o", "ds_scale", "p_scale"},
           "quantised attention");
    layout_of(c);
    for (const char* input : {"query", "key", "value"}) c.out(c.in(input).type);
    for (const char* input : {"pse_shift", "query_rope", "key_rope", "sink"}) gradient(c, input);
}

/// PromptFlashAttention, IncreFlashAttention, FusedInferAttentionScore.
void inference_attention(Context& c) {
    refuse(c, {"dequant_scale1", "quant_scale1", "dequant_scale2", "quant_scale2", "quant_offset2"},
           "quantised attention");
}

void attention_of_inference(Context& c, const char* heads) {
    const Layout& layout = layout_of(c);
    c.out(c.dtype("query"), [&] {
        // A paged cache has a layout of its own; the head size of value is then the query's.
        return c.op.attribute("block_size") && c.has("block_table") ? checked(c, "query", layout)
                                                                    : attended(c, layout, heads);
    });
}

void prompt_attention(Context& c) {
    refuse(c, {"deq_scale1", "quant_scale1", "deq_scale2", "quant_scale2", "quant_offset2"},
           "quantised attention");
    attention_of_inference(c, "num_heads");
}

void incremental_attention(Context& c) {
    inference_attention(c);
    attention_of_inference(c, "num_heads");
}

void fused_inference_attention(Context& c) {
    inference_attention(c);
    attention_of_inference(c, "num_heads");
    const Layout& layout = layout_of(c);
    c.out(ACL_FLOAT, [&]() -> Dims {
        if (!c.flag("softmax_lse_flag")) return {0};
        const Dims& query = checked(c, "query", layout);
        if (layout.batch < 0) return {query[0], query[1], 1};
        return {query[layout.batch], head_count(c, "num_heads"), query[layout.sequence], 1};
    });
}

void like_first(Context& c) { c.out(c.in(0).type); }

void rotary_grad(Context& c) {
    for (const char* input : {"x", "r1", "r2"}) c.out(c.in(input).type);
}

void apply_rotary(Context& c) {
    for (const char* input : {"query", "key"}) c.out(c.in(input).type);
}

void rotary_position_grad(Context& c) {
    for (const char* input : {"dy", "cos", "sin"}) c.out(c.in(input).type);
}

constexpr Rule kRules[] = {
    {"ApplyRotaryPosEmb", apply_rotary},
    {"FlashAttentionScore", flash_attention},
    {"FlashAttentionScoreGrad", flash_attention_grad},
    {"FusedInferAttentionScore", fused_inference_attention},
    {"IncreFlashAttention", incremental_attention},
    {"InterleaveRope", like_first},
    {"PromptFlashAttention", prompt_attention},
    {"RotaryMul", like_first},
    {"RotaryMulGrad", rotary_grad},
    {"RotaryPositionEmbedding", like_first},
    {"RotaryPositionEmbeddingGrad", rotary_position_grad},
};

}  // namespace

std::span<const Rule> attention_rules() { return kRules; }

}  // namespace npu::graph
