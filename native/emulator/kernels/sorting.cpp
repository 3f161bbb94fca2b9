// Orders and sets: sorts, the largest k, distinct values, places in a sorted sequence. NaN counts as the
// largest.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

void sort(const Tensor& self, bool stable, int64_t dim, bool descending, const Tensor& values,
          const Tensor& indices) {
    auto [value, index] = at::sort(self, std::optional<bool>(stable), dim, descending);
    write(values, value);
    write(indices, index);
}

void topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, const Tensor& values,
          const Tensor& indices) {
    auto [value, index] = at::topk(self, k, dim, largest, sorted);
    write(values, value);
    write(indices, index);
}

// The value of an output that the caller may have asked for or given no room for.
void write_if_wanted(bool wanted, const Tensor& out, const Tensor& value) {
    if (wanted || out.numel() == value.numel()) write(out, value);
}

void unique2(const Tensor& self, bool sorted, bool want_inverse, bool want_counts,
             const DynamicOutput& values, const Tensor& inverse, const DynamicOutput& counts) {
    auto [value, place, count] = at::_unique2(self, sorted, true, true);
    values.set(value);
    write_if_wanted(want_inverse, inverse, place);
    if (want_counts) counts.set(count);
}

// `dim` 1000: over the flattened tensor.
void unique_consecutive(const Tensor& self, bool want_inverse, bool want_counts, int64_t dim,
                        const DynamicOutput& values, const Tensor& inverse, const DynamicOutput& counts) {
    constexpr int64_t kNoDim = 1000;
    const auto along = dim == kNoDim ? std::optional<int64_t>() : std::optional<int64_t>(dim);
    auto [value, place, count] = at::unique_consecutive(self, true, true, along);
    values.set(value);
    write_if_wanted(want_inverse, inverse, place);
    if (want_counts) counts.set(count);
}

const Table table{
    {"aclnnSort", sort},
    {"aclnnArgsort",
     [](const Tensor& self, int64_t dim, bool descending, const Tensor& out) {
         write(out, std::get<1>(at::sort(self, std::optional<bool>(true), dim, descending)));
     }},
    {"aclnnTopk", topk},
    {"aclnnUnique",
     [](const Tensor& self, bool sorted, bool want_inverse, const DynamicOutput& values,
        const Tensor& inverse) {
         auto [value, place, count] = at::_unique2(self, sorted, true, false);
         values.set(value);
         write_if_wanted(want_inverse, inverse, place);
     }},
    {"aclnnUnique2", unique2},
    {"aclnnUniqueDim",
     [](const Tensor& self, bool sorted, bool want_inverse, int64_t dim, const DynamicOutput& values,
        const Tensor& inverse, const DynamicOutput& counts) {
         auto [value, place, count] = at::unique_dim(self, dim, sorted, true, true);
         values.set(value);
         write_if_wanted(want_inverse, inverse, place);
         counts.set(count);
     }},
    {"aclnnUniqueConsecutive", unique_consecutive},
    {"aclnnSearchSorted",
     [](const Tensor& sequence, const Tensor& self, bool int32, bool right,
        const std::optional<Tensor>& sorter, const Tensor& out) {
         write(out, at::searchsorted(sequence, self, int32, right, std::nullopt, sorter));
     }},
    {"aclnnSearchSorteds",
     [](const Tensor& sequence, const Scalar& self, bool int32, bool right,
        const std::optional<Tensor>& sorter, const Tensor& out) {
         write(out, at::searchsorted(sequence, self, int32, right, std::nullopt, sorter));
     }},
    {"aclnnBucketize", [](const Tensor& self, const Tensor& boundaries, bool int32, bool right,
                          const Tensor& out) { write(out, at::bucketize(self, boundaries, int32, right)); }},
};

}  // namespace
}  // namespace npu::emulator
