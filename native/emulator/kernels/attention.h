// Fused attention as CANN's FlashAttentionScore family defines it: softmax(mask(scale * (q k^T + pse))) v,
// tile by tile.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace npu::emulator {

// The attributes that all versions of the operator share.
struct AttentionOptions {
    double scale = 1.0;
    double keep_prob = 1.0;
    int64_t pre_tokens = std::numeric_limits<int32_t>::max();
    int64_t next_tokens = std::numeric_limits<int32_t>::max();
    int64_t heads = 0;
    std::string layout;                    // BSH, SBH, BSND, BNSD or TND
    int64_t sparse_mode = 0;               // docs: sparse modes 0..6
    int64_t pse_type = 1;                  // 1: scale * (q k^T + pse), 0: scale * q k^T + pse
    std::vector<int64_t> prefix;           // sparse modes 5 and 6
    std::vector<int64_t> q_ends, kv_ends;  // TND: cumulative lengths
};

struct AttentionInputs {
    Tensor query, key, value;
    std::optional<Tensor> query_rope, key_rope;  // appended to the head dimension of query and key
    std::optional<Tensor> pse;                   // broadcasts to [B, N, Sq, Skv]
    std::optional<Tensor> drop_mask;  // bits, 1 keeps; [B, N, Sq, Skv] in order, packed, low bit first
    std::optional<Tensor> mask;       // true hides
};

// softmax_max and softmax_sum: f32 [B, N, Sq, 8], TND: [T, N, 8]; every one of the 8 lanes holds the row's
// figure. A row that attends to nothing gives zeros (max = -inf as the lowest float, sum = 0).
void attention_forward(const AttentionInputs& in, const AttentionOptions& options, const Tensor& softmax_max,
                       const Tensor& softmax_sum, const Tensor& out);

struct AttentionGradients {
    Tensor query, key, value;
    std::optional<Tensor> query_rope, key_rope, pse;
};

void attention_backward(const AttentionInputs& in, const AttentionOptions& options, const Tensor& grad_out,
                        const Tensor& softmax_max, const Tensor& softmax_sum, const Tensor& out,
                        const AttentionGradients& gradients);

}  // namespace npu::emulator
