// Rows of a table looked up by number, alone (Embedding) and summed in bags (EmbeddingBag), with the
// gradients.
#include <ATen/Parallel.h>

#include "kernels/indices.h"
#include "kernels/rows.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

void embedding(const Tensor& weight, const Tensor& indices, const Tensor& out) {
    auto shape = indices.sizes().vec();
    shape.push_back(weight.size(-1));
    TORCH_CHECK(out.sizes() == at::IntArrayRef(shape), "out has shape ", out.sizes(), ", the result has ",
                at::IntArrayRef(shape));
    const auto flat = checked_index(indices, weight.size(0), 0).reshape({-1});
    if (!out.is_contiguous() || out.scalar_type() != weight.scalar_type()) {
        return write(out, weight.index_select(0, flat).reshape(shape));
    }
    auto to = out.view({-1, weight.size(-1)});
    at::index_select_out(to, weight, 0, flat);
}

// Adds row after row in the order of the indices, each thread a range of columns: the same sum on any number
// of them.
void embedding_backward(const Tensor& grad, const Tensor& indices, int64_t rows, int64_t padding,
                        bool by_frequency, const Tensor& out) {
    const auto type = wide_type(grad.scalar_type());
    const auto width = grad.size(-1);
    TORCH_CHECK(out.dim() == 2 && out.size(0) == rows && out.size(1) == width, "out has shape ", out.sizes(),
                ", it must be (", rows, ", ", width, ")");
    if (type != at::kFloat) {
        return write(out,
                     at::embedding_dense_backward(grad, indices.to(at::kLong), rows, padding, by_frequency));
    }
    const auto up = grad.to(type).contiguous();
    const auto index = indices.to(at::kLong).contiguous();
    const auto sum = dense(out, type);
    sum.zero_();
    const auto count = index.numel();
    const int64_t* const at = index.const_data_ptr<int64_t>();
    std::vector<int64_t> times(by_frequency ? rows : 0);
    for (int64_t i = 0; i < count; ++i) {
        TORCH_CHECK(at[i] >= 0 && at[i] < rows, "index ", at[i], " is out of range: the table has ", rows,
                    " rows");
        if (by_frequency && at[i] != padding) ++times[at[i]];
    }
    const float* const from = up.const_data_ptr<float>();
    float* const to = sum.data_ptr<float>();
    at::parallel_for(0, width, std::max<int64_t>(16, 32768 / std::max<int64_t>(1, count)),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t i = 0; i < count; ++i) {
                             if (at[i] == padding) continue;
                             float* const row = to + at[i] * width;
                             const float* const source = from + i * width;
                             if (!by_frequency) {
                                 rows::add(row + begin, source + begin, end - begin);
                                 continue;
                             }
                             for (int64_t k = begin; k < end; ++k)
                                 row[k] += source[k] / static_cast<float>(times[at[i]]);
                         }
                     });
    store(out, sum);
}

// A secondary output whose extent differs between chips: as much of the value as there is room for, the rest
// zero.
void write_front(Optional out, const Tensor& value, const char* name) {
    if (!out || out->numel() == 0) return;
    if (out->numel() == value.numel()) return out->copy_(value.reshape(out->sizes())), void();
    TORCH_CHECK(out->dim() == 1 && out->numel() > value.numel(), name, " has shape ", out->sizes(),
                ", the result has ", value.sizes());
    out->zero_();
    out->narrow(0, 0, value.numel()).copy_(value.reshape({-1}));
}

// mode: 0 sum, 1 mean, 2 max. Dense gradients only differ from sparse ones in the backward pass.
void embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool by_frequency,
                   int64_t mode, Optional sample_weights, bool include_last, int64_t padding,
                   const Tensor& output, Optional offset2bag, Optional bag_size, Optional max_indices) {
    TORCH_CHECK(mode >= 0 && mode <= 2, "mode is ", mode, ", it must be 0 (sum), 1 (mean) or 2 (max)");
    const auto table = widen(weight);
    const auto [value, bags, sizes, places] = at::_embedding_bag(
        table, indices.to(at::kLong), offsets.to(at::kLong), by_frequency, mode, /*sparse=*/false,
        to_type(sample_weights, table.scalar_type()), include_last, padding);
    write(output, value);
    if (offset2bag && offset2bag->numel() > 0) {
        // ATen leaves the bags out where it does not need them: position i is in the last bag that starts at
        // or before i.
        auto starts = offsets.to(at::kLong);
        if (include_last) starts = starts.narrow(0, 0, starts.numel() - 1);
        const auto positions = at::arange(indices.numel(), starts.options());
        write_front(offset2bag,
                    at::searchsorted(starts.contiguous(), positions, /*out_int32=*/false, /*right=*/true) - 1,
                    "offset2bag");
    }
    const auto count = value.size(0);
    write_front(bag_size, sizes.numel() > count ? sizes.narrow(0, 0, count) : sizes, "bagSize");
    write_front(max_indices, mode == 2 ? places : at::zeros({count}, places.options()), "maxIndices");
}

const Table table{
    {"aclnnEmbedding",
     [](const Tensor& weight, const Tensor& indices, const Tensor& out) { embedding(weight, indices, out); }},
    {"aclnnEmbeddingDenseBackward",
     [](const Tensor& grad, const Tensor& indices, int64_t rows, int64_t padding, bool by_frequency,
        const Tensor& out) { embedding_backward(grad, indices, rows, padding, by_frequency, out); }},
    {"aclnnEmbeddingRenorm",
     [](const Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
         auto wide = widen(self).contiguous();
         at::embedding_renorm_(wide, indices.to(at::kLong).contiguous(), max_norm, norm_type);
         store(self, wide);
     }},
    {"aclnnEmbeddingBag",
     [](const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool by_frequency, int64_t mode,
        bool /*sparse*/, Optional sample_weights, bool include_last, int64_t padding, const Tensor& output,
        Optional offset2bag, Optional bag_size, Optional max_indices) {
         embedding_bag(weight, indices, offsets, by_frequency, mode, sample_weights, include_last, padding,
                       output, offset2bag, bag_size, max_indices);
     }},
};

}  // namespace
}  // namespace npu::emulator
