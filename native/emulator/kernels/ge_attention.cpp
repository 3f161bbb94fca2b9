// GE's rotary embeddings, gated activations and training attention; ge_inference.cpp has that of inference.
#include "kernels/attention.h"
#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;
using Number = std::optional<int64_t>;
using Real = std::optional<double>;
using Text = const std::optional<std::string>&;

void refuse(Optional given, const char* name) {
    TORCH_CHECK(!given || given->numel() == 0, name, " is not implemented by the host emulator");
}
// torchair passes 0 for the index where a sequence starts.
void refuse_start(IntArrayRef given, const char* name) {
    for (const auto value : given)
        TORCH_CHECK(value == 0, name, " is ", value, "; other starts than 0 are not implemented");
}
std::optional<Tensor> present(Optional given) { return given && given->numel() > 0 ? given : std::nullopt; }

AttentionOptions options_of(Real scale, Real keep, Number pre, Number next, int64_t heads,
                            const std::string& layout, Number sparse, Number pse_type, IntArrayRef prefix,
                            IntArrayRef q_lens, IntArrayRef kv_lens, Text statistics) {
    TORCH_CHECK(!statistics || statistics->empty() || *statistics == "same_as_input" || *statistics == "TND",
                "the layout ", *statistics, " of the statistics is not implemented");
    AttentionOptions options;
    options.scale = scale.value_or(1);
    options.keep_prob = keep.value_or(1);
    options.pre_tokens = pre.value_or(options.pre_tokens);
    options.next_tokens = next.value_or(options.next_tokens);
    options.heads = heads;
    options.layout = layout;
    options.sparse_mode = sparse.value_or(0);
    options.pse_type = pse_type.value_or(1);
    options.prefix = prefix.vec();
    options.q_ends = q_lens.vec();
    options.kv_ends = kv_lens.vec();
    return options;
}

void zero(Optional out) {
    if (out && out->numel() > 0) out->zero_();
}

void forward(const Tensor& query, const Tensor& key, const Tensor& value, Optional pse, Optional drop_mask,
             Optional padding_mask, Optional mask, IntArrayRef prefix, IntArrayRef q_lens,
             IntArrayRef kv_lens, IntArrayRef q_start, IntArrayRef kv_start, Optional d_scale_q,
             Optional d_scale_k, Optional d_scale_v, Optional query_rope, Optional key_rope, Optional sink,
             Optional p_scale, Real scale, Real keep, Number pre, Number next, int64_t heads,
             const std::string& layout, Number, Number sparse, Number pse_type, Number, Number,
             Text statistics, const Tensor& softmax_max, const Tensor& softmax_sum, Optional softmax_out,
             const Tensor& out) {
    refuse(padding_mask, "padding_mask");
    refuse(d_scale_q, "d_scale_q");
    refuse(d_scale_k, "d_scale_k");
    refuse(d_scale_v, "d_scale_v");
    refuse(sink, "sink");
    refuse(p_scale, "p_scale");
    refuse_start(q_start, "q_start_idx");
    refuse_start(kv_start, "kv_start_idx");
    const AttentionInputs in{
        query,        key, value, present(query_rope), present(key_rope), present(pse), present(drop_mask),
        present(mask)};
    attention_forward(in,
                      options_of(scale, keep, pre, next, heads, layout, sparse, pse_type, prefix, q_lens,
                                 kv_lens, statistics),
                      softmax_max, softmax_sum, out);
    zero(softmax_out);  // reserved
}

void backward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& dy, Optional pse,
              Optional drop_mask, Optional padding_mask, Optional mask, const Tensor& softmax_max,
              const Tensor& softmax_sum, Optional /*softmax_in*/, const Tensor& out, IntArrayRef prefix,
              IntArrayRef q_lens, IntArrayRef kv_lens, IntArrayRef q_start, IntArrayRef kv_start,
              Optional d_scale_q, Optional d_scale_k, Optional d_scale_v, Optional d_scale_dy,
              Optional d_scale_o, Optional query_rope, Optional key_rope, Optional sink, Optional ds_scale,
              Optional p_scale, Real scale, Real keep, Number pre, Number next, int64_t heads,
              const std::string& layout, Number, Number sparse, Number pse_type, Number, Number,
              Text statistics, const Tensor& dq, const Tensor& dk, const Tensor& dv, Optional dpse,
              Optional dq_rope, Optional dk_rope, Optional dsink) {
    refuse(padding_mask, "padding_mask");
    for (Optional given : {d_scale_q, d_scale_k, d_scale_v, d_scale_dy, d_scale_o, ds_scale, p_scale})
        refuse(given, "a scale of quantised attention");
    refuse(sink, "sink");
    refuse_start(q_start, "q_start_idx");
    refuse_start(kv_start, "kv_start_idx");
    const AttentionInputs in{
        query,        key, value, present(query_rope), present(key_rope), present(pse), present(drop_mask),
        present(mask)};
    const bool roped = in.query_rope.has_value(), biased = in.pse.has_value();
    const AttentionGradients gradients{dq,
                                       dk,
                                       dv,
                                       roped ? present(dq_rope) : std::nullopt,
                                       roped ? present(dk_rope) : std::nullopt,
                                       biased ? present(dpse) : std::nullopt};
    attention_backward(in,
                       options_of(scale, keep, pre, next, heads, layout, sparse, pse_type, prefix, q_lens,
                                  kv_lens, statistics),
                       dy, softmax_max, softmax_sum, out, gradients);
    if (!roped) zero(dq_rope), zero(dk_rope);
    if (!biased) zero(dpse);
    zero(dsink);
}

// query and key are turned in place; the outputs are their memory.
void apply_rotary(const Tensor& query, const Tensor& key, const Tensor& cos, const Tensor& sin, Number layout,
                  Text mode, const Tensor& new_query, const Tensor& new_key) {
    call_aclnn("aclnnApplyRotaryPosEmbV2", query, key, cos, sin, layout.value_or(1), mode.value_or("half"));
    if (new_query.const_data_ptr() != query.const_data_ptr()) write(new_query, query);
    if (new_key.const_data_ptr() != key.const_data_ptr()) write(new_key, key);
}

const Table table{
    {Ge{"FlashAttentionScore",
        {"scale_value", "keep_prob", "pre_tockens", "next_tockens", "head_num", "input_layout",
         "inner_precise", "sparse_mode", "pse_type", "seed", "offset", "softmax_out_layout", "out_dtype?=0"}},
     forward},
    {Ge{"FlashAttentionScoreGrad",
        {"scale_value", "keep_prob", "pre_tockens", "next_tockens", "head_num", "input_layout",
         "inner_precise", "sparse_mode", "pse_type", "seed", "offset", "softmax_in_layout", "out_dtype?=0"}},
     backward},
    {Ge{"RotaryMul"}, [](const Tensor& x, const Tensor& cos, const Tensor& sin,
                         const Tensor& y) { call_aclnn("aclnnRotaryPositionEmbedding", x, cos, sin, 0, y); }},
    // need_backward (whether dr1 and dr2 are wanted) is torchair's; they are computed in any case.
    {Ge{"RotaryMulGrad", {"need_backward"}},
     [](const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& dy, std::optional<bool>,
        const Tensor& dx, const Tensor& dcos, const Tensor& dsin) {
         call_aclnn("aclnnRotaryPositionEmbeddingGrad", dy, cos, sin, x, 0, dx, dcos, dsin);
     }},
    {Ge{"RotaryPositionEmbedding", {"mode"}},
     [](const Tensor& x, const Tensor& cos, const Tensor& sin, Optional rotate, Number mode,
        const Tensor& y) {
         call_aclnn("aclnnRotaryPositionEmbeddingV2", x, cos, sin, mode.value_or(0), rotate, y);
     }},
    {Ge{"RotaryPositionEmbeddingGrad", {"mode"}},
     [](const Tensor& dy, const Tensor& cos, const Tensor& sin, Optional x, Number mode, const Tensor& dx,
        Optional dcos, Optional dsin) {
         call_aclnn("aclnnRotaryPositionEmbeddingGrad", dy, cos, sin, x, mode.value_or(0), dx, dcos, dsin);
     }},
    {Ge{"ApplyRotaryPosEmb", {"layout", "rotary_mode"}}, apply_rotary},
    {Ge{"GeGluV2", {"dim", "approximate", "activate_left"}},
     [](const Tensor& x, Number dim, Number approximate, std::optional<bool> left, const Tensor& y,
        const Tensor& gelu) {
         call_aclnn("aclnnGeGluV3", x, dim.value_or(-1), approximate.value_or(1), left.value_or(false), y,
                    gelu);
     }},
};

}  // namespace
}  // namespace npu::emulator
