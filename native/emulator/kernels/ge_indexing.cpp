// GE's reads and writes at indices. Where CANN leaves an index that is out of range undefined, it is refused.
#include "kernels/delegate.h"
#include "kernels/indices.h"
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Number = std::optional<int64_t>;
using Flag = std::optional<bool>;

// Indices from the end as indices from the start, where the operator is told to take them.
Tensor from_start(const Tensor& index, int64_t size, int64_t dim, bool negative) {
    return negative ? checked_index(index, size, dim, true) : index;
}

void gather(const Tensor& x, const Tensor& indices, int64_t axis, Number batch_dims, Flag negative,
            const Tensor& y) {
    const auto batches = batch_dims.value_or(0);
    const auto wrapped = at::maybe_wrap_dim(axis, x.dim());
    const auto places = from_start(indices, x.size(wrapped), wrapped, negative.value_or(false));
    call_aclnn("aclnnGatherV3", x, wrapped, places, batches < 0 ? batches + indices.dim() : batches, 0, y);
}

Tensor element_index(const Tensor& x, int64_t dim, const Tensor& index) {
    const auto wrapped = at::maybe_wrap_dim(dim, x.dim());
    return checked_index(index, x.dim() == 0 ? 1 : x.size(wrapped), wrapped, true);
}
void gather_elements(const Tensor& x, const Tensor& index, Number dim, const Tensor& y) {
    call_aclnn("aclnnGather", x, dim.value_or(0), element_index(x, dim.value_or(0), index), y);
}

void scatter_elements(const Tensor& data, const Tensor& indices, const Tensor& updates, Number axis,
                      const std::optional<std::string>& reduction, const Tensor& y) {
    static constexpr const char* names[] = {"none", "add", "mul", "max", "min"};  // as aclnn numbers them
    const auto name = reduction.value_or("none");
    const auto number = std::ranges::find(names, name) - std::begin(names);
    TORCH_CHECK(number < 5, "reduction is ", name, "; known are none, add, mul, max and min");
    const auto dim = axis.value_or(0);
    call_aclnn("aclnnScatter", data, dim, element_index(data, dim, indices), updates,
               static_cast<int64_t>(number), y);
}

// TensorFlow's: repeated indices add up.
void scatter_nd(const Tensor& indices, const Tensor& x, IntArrayRef, const Tensor& y) {
    y.zero_();
    call_aclnn("aclnnTfScatterAdd", y, indices, x);
}

// x with rows changed along its first dimension.
template <class F>
void change_rows(const Tensor& x, const Tensor& indices, const Tensor& v, const Tensor& y, F change) {
    start_from(x, y);
    const auto rows = checked_index(indices, x.size(0), 0).reshape({-1});
    auto shape = x.sizes().vec();
    shape[0] = rows.numel();
    change(rows, v.reshape(shape));
}
void inplace_update(const Tensor& x, const Tensor& indices, const Tensor& v, const Tensor& y) {
    change_rows(x, indices, v, y, [&](const Tensor& rows, const Tensor& to) { y.index_copy_(0, rows, to); });
}
void inplace_add(const Tensor& x, const Tensor& indices, const Tensor& v, const Tensor& y) {
    change_rows(x, indices, v, y,
                [&](const Tensor& rows, const Tensor& more) { accumulate_rows(y, rows, more); });
}
void inplace_sub(const Tensor& x, const Tensor& indices, const Tensor& v, const Tensor& y) {
    inplace_add(x, indices, -v, y);
}

void masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& updates, const Tensor& y) {
    const auto value = x.clone();
    call_aclnn("aclnnInplaceMaskedScatter", value, mask.expand(x.sizes()), updates);
    write(y, value);
}

// indices holds a tensor for each 1 in the mask of dimensions; none at all: one for each first dimension.
void index_by_tensor(const Tensor& x, const std::vector<Tensor>& indices, IntArrayRef mask, const Tensor& y) {
    c10::List<std::optional<Tensor>> places;
    std::size_t next = 0;
    const auto count = mask.empty() ? indices.size() : mask.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (!mask.empty() && mask[i] == 0) {
            places.push_back(std::nullopt);
            continue;
        }
        TORCH_CHECK(next < indices.size(), "indices_mask ", mask, " asks for more than the ", indices.size(),
                    " indices");
        const auto& index = indices[next++];
        places.push_back(index.scalar_type() == at::kBool ? index : index.to(at::kLong));
    }
    TORCH_CHECK(next == indices.size() || mask.empty(), "indices_mask ", mask, " asks for fewer than the ",
                indices.size(), " indices");
    write(y, next == 0 && !mask.empty() ? x : at::index(x, places));
}

// CANN's own form of the same: which dimensions have an index is in indexed_sizes.
void index_v1(const Tensor& x, IntArrayRef sizes, const std::optional<Tensor>&,
              const std::vector<Tensor>& indices, const Tensor& y) {
    index_by_tensor(x, indices, sizes, y);
}

// Ids below 0 count nowhere.
void segment_sum(const Tensor& x, const Tensor& ids, int64_t segments, const Tensor& y) {
    TORCH_CHECK(ids.dim() <= x.dim() && x.sizes().slice(0, ids.dim()) == ids.sizes(),
                "segment_ids has shape ", ids.sizes(), ", it must be the first dimensions of x ", x.sizes());
    TORCH_CHECK(y.dim() > 0 && y.size(0) == segments, "num_segments is ", segments, ", the output has shape ",
                y.sizes());
    const auto flat = ids.to(at::kLong).reshape({-1});
    auto shape = x.sizes().slice(ids.dim()).vec();
    shape.insert(shape.begin(), flat.numel());
    const auto kept = at::nonzero(flat >= 0).view({-1});
    y.zero_();
    accumulate_rows(y, checked_index(flat.index_select(0, kept), segments, 0),
                    x.reshape(shape).index_select(0, kept));
}

// Values from size on are not counted.
void bincount(const Tensor& array, int64_t size, const std::optional<Tensor>& weights, const Tensor& bins) {
    const auto flat = array.to(at::kLong).reshape({-1});
    TORCH_CHECK(flat.numel() == 0 || flat.min().item<int64_t>() >= 0, "array holds a negative value");
    TORCH_CHECK(bins.numel() == size, "size is ", size, ", the output has shape ", bins.sizes());
    const auto kept = at::nonzero(flat < size).view({-1});
    const bool weighted = weights && weights->numel() > 0;
    const auto each = weighted ? weights->reshape({-1}).index_select(0, kept).to(bins.scalar_type())
                               : at::ones({kept.numel()}, bins.options());
    bins.zero_();
    bins.index_add_(0, flat.index_select(0, kept), each);
}

const Table table{
    {Ge{"Gather", {"validate_indices", "batch_dims", "is_preprocessed", "negative_index_support"}},
     [](const Tensor& x, const Tensor& indices, Flag, Number batch_dims, Flag, Flag negative,
        const Tensor& y) { gather(x, indices, batch_dims.value_or(0), batch_dims, negative, y); }},
    {Ge{"GatherV2", {"batch_dims", "is_preprocessed", "negative_index_support"}},
     [](const Tensor& x, const Tensor& indices, int64_t axis, Number batch_dims, Flag, Flag negative,
        const Tensor& y) { gather(x, indices, axis, batch_dims, negative, y); }},
    {Ge{"GatherV2D", {"axis"}},
     [](const Tensor& x, const Tensor& indices, int64_t axis, const Tensor& y) {
         gather(x, indices, axis, std::nullopt, std::nullopt, y);
     }},
    {Ge{"GatherNd", {"negative_index_support"}},
     [](const Tensor& x, const Tensor& indices, Flag negative, const Tensor& y) {
         call_aclnn("aclnnGatherNd", x, indices, negative.value_or(false), y);
     }},
    {Ge{"GatherElements", {"dim"}}, gather_elements},
    {Ge{"GatherD", {"dim"}}, [](const Tensor& x, int64_t dim, const Tensor& index, Number,
                                const Tensor& y) { gather_elements(x, index, dim, y); }},
    {Ge{"IndexByTensor", {"indices_mask"}}, index_by_tensor},
    {Ge{"Index"}, index_v1},

    {Ge{"ScatterNd"}, scatter_nd},
    {Ge{"ScatterElements", {"axis", "reduction"}}, scatter_elements},
    Entry(Ge{"TensorScatterUpdate"},
          [](const Tensor& x, const Tensor& indices, const Tensor& updates, const Tensor& y) {
              call_aclnn("aclnnScatterNd", x, indices, updates, y);
          })
        .updates(),
    Entry(Ge{"TensorScatterAdd"},
          [](const Tensor& x, const Tensor& indices, const Tensor& updates, const Tensor& y) {
              start_from(x, y);
              call_aclnn("aclnnTfScatterAdd", y, indices, updates);
          })
        .updates(),
    Entry(Ge{"TensorScatterSub"},
          [](const Tensor& x, const Tensor& indices, const Tensor& updates, const Tensor& y) {
              start_from(x, y);
              call_aclnn("aclnnTfScatterAdd", y, indices, -updates);
          })
        .updates(),
    {Ge{"IndexAdd", {"axis"}},
     [](const Tensor& var, const Tensor& indices, const Tensor& updates, Number axis, const Tensor& out) {
         call_aclnn("aclnnIndexAdd", var, axis.value_or(0), indices, updates, Scalar(1), out);
     }},
    {Ge{"InplaceUpdate"}, inplace_update},
    {Ge{"InplaceAdd"}, inplace_add},
    {Ge{"InplaceSub"}, inplace_sub},

    {Ge{"MaskedSelect"}, [](const Tensor& x, const Tensor& mask,
                            const DynamicOutput& y) { call_aclnn("aclnnMaskedSelect", x, mask, y); }},
    {Ge{"MaskedScatter"}, masked_scatter},
    {Ge{"NonZero", {"transpose", "dtype"}},
     [](const Tensor& x, Flag transpose, std::optional<ScalarType>, const DynamicOutput& y) {
         call_aclnn(transpose.value_or(false) ? "aclnnNonzeroV2" : "aclnnNonzero", x, y);
     }},
    {Ge{"Where"}, [](const Tensor& x, const DynamicOutput& y) { call_aclnn("aclnnNonzero", x, y); }},
    {Ge{"OneHot", {"axis"}},
     [](const Tensor& x, int64_t depth, const Tensor& on, const Tensor& off, Number axis, const Tensor& y) {
         call_aclnn("aclnnOneHot", x, depth, on, off, axis.value_or(-1), y);
     }},
    {Ge{"OneHotD", {"depth", "axis"}},
     [](const Tensor& x, const Tensor& on, const Tensor& off, int64_t depth, Number axis, const Tensor& y) {
         call_aclnn("aclnnOneHot", x, depth, on, off, axis.value_or(-1), y);
     }},
    {Ge{"EmbeddingDenseGrad", {"num_weights", "padding_idx", "scale_grad_by_freq"}},
     [](const Tensor& grad, const Tensor& indices, int64_t rows, Number padding, Flag by_frequency,
        const Tensor& y) {
         call_aclnn("aclnnEmbeddingDenseBackward", grad, indices, rows, padding.value_or(-1),
                    by_frequency.value_or(false), y);
     }},
    {Ge{"IndexFill", {"dim"}},
     [](const Tensor& x, const Tensor& indices, const Tensor& value, int64_t dim, const Tensor& y) {
         call_aclnn("aclnnIndexFill", x, dim, indices, only_element(value, "val"), y);
     }},
    // assist1 is 0 at the filled places and 1 elsewhere, assist2 the value there and 0 elsewhere.
    Entry(Ge{"IndexFillD", {"dim"}}, [](const Tensor& x, const Tensor& assist1, const Tensor& assist2, Number,
                                        const Tensor& y) { write(y, x * assist1 + assist2); })
        .elementwise(),
    {Ge{"SearchSorted", {"dtype", "right"}},
     [](const Tensor& sequence, const Tensor& values, const std::optional<Tensor>& sorter,
        std::optional<ScalarType>, Flag right, const Tensor& out) {
         call_aclnn("aclnnSearchSorted", sequence, values, out.scalar_type() == at::kInt,
                    right.value_or(false), sorter, out);
     }},
    {Ge{"Bincount"}, bincount},
    {Ge{"UnsortedSegmentSum", {"is_preprocessed", "check_ids"}},
     [](const Tensor& x, const Tensor& ids, int64_t segments, Flag, Flag, const Tensor& y) {
         segment_sum(x, ids, segments, y);
     }},
    {Ge{"UnsortedSegmentSumD", {"num_segments"}}, segment_sum},
};

}  // namespace
}  // namespace npu::emulator
