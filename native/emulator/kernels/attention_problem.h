// One attention call in one shape, whatever its layout: rows of heads of sequences, what a query row sees,
// and its scores.
#pragma once

#include "kernels/attention.h"

namespace npu::emulator {

struct Sequence {
    int64_t index;  // in the batch
    int64_t q_start, q_length, kv_start, kv_length;
};

struct Tile {
    int64_t q0, rows, k0, columns;  // within the sequence
};

struct Range {
    int64_t begin, end;
};

class AttentionProblem {
  public:
    // Throws a sentence for what is not supported, and for shapes that do not fit together.
    AttentionProblem(const AttentionInputs& in, const AttentionOptions& options);

    const AttentionOptions& options;
    std::vector<Sequence> sequences;
    int64_t group;               // query heads per key/value head
    Tensor query, key, value;    // f32 views [B, N, S, D]; TND: [1, N, T, D]. Ropes are appended to D.
    std::optional<Tensor> pse;   // f32 [B, N, Sq, Skv]
    std::optional<Tensor> mask;  // bool [B, N, Sq, Skv], only where the mode reads it

    Tensor view_rows(
        const Tensor& tensor) const;  // any of q, k, v, out in the caller's layout -> [B, N, S, D]
    Tensor view_statistic(const Tensor& statistic) const;  // softmax_max or softmax_sum -> [B, N, S, 8]
    Tensor rows(const Tensor& view, int64_t batch, int64_t head, int64_t first,
                int64_t count) const;  // [count, D]
    Tensor statistic(const Tensor& view, int64_t batch, int64_t head, int64_t first, int64_t count) const {
        return rows(view, batch, head, first, count);
    }
    void split_rope(const Tensor& gradient, const Tensor& head_part,
                    const std::optional<Tensor>& rope_part) const;

    // The keys that at least one of the query rows may see by the sparse mode.
    Range visible_keys(const Sequence& sequence, int64_t q0, int64_t rows) const;

    // The columns of the tile that its row-th row may see by the sparse mode, counted within the tile.
    Range visible_columns(const Sequence& sequence, const Tile& tile, int64_t row) const;

    // scale * (q k^T + pse) into f32 [rows, columns], -inf where the mask tensor hides. What the sparse mode
    // hides is left as it is: see visible_columns.
    void scores(const Tensor& q, const Sequence& sequence, int64_t head, const Tile& tile,
                Tensor& result) const;

    bool drops() const { return drop_mask_.defined(); }
    Tensor keep(const Sequence& sequence, int64_t head,
                const Tile& tile) const;  // 1 / keep_prob or 0, f32 [rows, columns]

  private:
    Range visible_row(const Sequence& sequence, int64_t row) const;
    void read_sequences();
    void read_mask(const AttentionInputs& in);

    bool packed_;
    bool hides_ = false;                // a mask was given: the sparse mode is in force
    Tensor drop_mask_;                  // uint8, flat
    std::vector<int64_t> drop_starts_;  // first bit of each sequence
};

}  // namespace npu::emulator
