// Reading and writing at indices and under masks. Indices out of range are errors that name the index.
#include "kernels/indices.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

bool is_index(const Tensor& tensor) {
    return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt;
}

// The list of an indexing expression: torch_npu writes "no index here" as an empty tensor of self's dtype.
// Indices were broadcast before, so an empty real index means that all of them (and the result) are empty.
struct IndexList {
    c10::List<std::optional<Tensor>> indices;
    bool any = false;        // an index with elements
    bool any_empty = false;  // an index without, which an absent one of an integer self cannot be told from

    IndexList(const Tensor& self, const std::vector<Tensor>& list) {
        for (auto& tensor : list) {
            if (!tensor.defined() || tensor.numel() == 0) {
                any_empty |=
                    tensor.defined() && (tensor.scalar_type() != self.scalar_type() || is_index(tensor));
                indices.push_back(std::nullopt);
                continue;
            }
            any = true;
            const bool mask = tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
            indices.push_back(mask ? tensor.to(at::kBool) : tensor.to(at::kLong));
        }
    }
};

void index(const Tensor& self, const std::vector<Tensor>& list, const Tensor& out) {
    if (out.numel() == 0) return;
    const IndexList by(self, list);
    if (!by.any) return write(out, self);
    if (out.scalar_type() != self.scalar_type()) return write(out, at::index(self, by.indices));
    fill(out, [&](Tensor& to) { at::index_out(to, self, by.indices); });
}

// self[indices] += values. ATen's own adds with atomics, in no fixed order: here rows of the indexed
// dimensions are added one after the other.
void index_put_accumulate(const Tensor& self, const IndexList& by, const Tensor& values) {
    std::vector<int64_t> indexed, rest;
    std::vector<Tensor> columns;
    int64_t dim = 0;
    for (std::size_t i = 0; i < by.indices.size(); ++i) {
        const std::optional<Tensor> index = by.indices.get(i);
        if (!index) {
            rest.push_back(dim++);
        } else if (index->scalar_type() == at::kBool) {
            const auto places = at::nonzero(*index);
            for (int64_t k = 0; k < index->dim(); ++k) {
                TORCH_CHECK_INDEX(index->size(k) == self.size(dim), "the mask has shape ", index->sizes(),
                                  ", the indexed tensor ", self.sizes());
                columns.push_back(places.select(1, k));
                indexed.push_back(dim++);
            }
        } else {
            columns.push_back(*index);
            indexed.push_back(dim++);
        }
    }
    while (dim < self.dim()) rest.push_back(dim++);
    auto order = indexed;
    order.insert(order.end(), rest.begin(), rest.end());
    const auto front = self.permute(order);
    const auto k = static_cast<int64_t>(indexed.size());
    const auto rows = at::stack(at::broadcast_tensors(columns), -1);
    const auto at = positions(rows, front.sizes().slice(0, k), true);

    // Where the indexed dimensions are neighbours the result has their places, else they come first.
    const bool neighbours = indexed.back() - indexed.front() == k - 1;
    const auto before = neighbours ? indexed.front() : 0;
    std::vector<int64_t> shape;
    for (int64_t i = 0; i < before; ++i) shape.push_back(front.size(k + i));
    shape.insert(shape.end(), at.sizes().begin(), at.sizes().end());
    for (int64_t i = before; i < static_cast<int64_t>(rest.size()); ++i) shape.push_back(front.size(k + i));
    auto source = values.to(self.scalar_type()).expand(shape);
    for (int64_t i = 0; i < before; ++i) source = source.movedim(0, before + at.dim() - 1);
    const auto tail = front.sizes().slice(k).vec();
    std::vector<int64_t> folded{at.numel()};
    folded.insert(folded.end(), tail.begin(), tail.end());
    std::vector<int64_t> flat{-1};
    flat.insert(flat.end(), tail.begin(), tail.end());
    int64_t leading = 1;
    for (int64_t i = 0; i < k; ++i) leading *= front.size(i);
    flat[0] = leading;
    const auto sums = front.reshape(flat);
    accumulate_rows(sums, at.reshape({-1}), source.reshape(folded));
    if (sums.const_data_ptr() != self.const_data_ptr()) front.copy_(sums.view(front.sizes()));
}

// `unsafe` only allows the hardware to skip its checks.
void index_put(const Tensor& self, const std::vector<Tensor>& list, const Tensor& values, bool accumulate,
               bool) {
    const IndexList by(self, list);
    if (!by.any && by.any_empty) return;
    if (!by.any) {
        accumulate ? self.add_(values) : self.copy_(values.expand_as(self));
    } else if (accumulate && self.numel() > 0) {
        index_put_accumulate(self, by, values);
    } else {
        at::index_put_(mut(self), by.indices, values.to(self.scalar_type()), false);
    }
}

void index_select(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
    const auto wrapped = at::maybe_wrap_dim(dim, self.dim());
    const auto size = self.dim() == 0 ? 1 : self.size(wrapped);
    const auto rows = checked_index(index, size, wrapped);
    if (out.scalar_type() != self.scalar_type()) return write(out, at::index_select(self, wrapped, rows));
    fill(out, [&](Tensor& to) { at::index_select_out(to, self, wrapped, rows); });
}

// index of any shape: its dimensions take the place of `dim`.
Tensor gather_v2(const Tensor& self, int64_t dim, const Tensor& index) {
    const auto wrapped = at::maybe_wrap_dim(dim, self.dim());
    auto shape = self.sizes().vec();
    shape.erase(shape.begin() + wrapped);
    shape.insert(shape.begin() + wrapped, index.sizes().begin(), index.sizes().end());
    const auto rows = checked_index(index, self.size(wrapped), wrapped).reshape({-1});
    return at::index_select(as_moved(self), wrapped, rows).reshape(shape);
}

// The same, straight to an output that has the result's type and no gaps.
void gather_into(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
    const Tensor to = as_moved(out), from = as_moved(self);
    auto shape = self.sizes().vec();
    shape[dim] = index.numel();
    if (to.scalar_type() != from.scalar_type() || !to.is_contiguous() ||
        to.numel() != c10::multiply_integers(shape) || from.dim() - 1 + index.dim() != to.dim())
        return write(to, gather_v2(self, dim, index));
    const auto rows = checked_index(index, self.size(dim), dim).reshape({-1});
    fill(to.view(shape), [&](Tensor& result) { at::index_select_out(result, from, dim, rows); });
}

// mode 0 and 1 are hints for the hardware; 2 would tolerate indices out of range.
void gather_v3(const Tensor& self, int64_t dim, const Tensor& index, int64_t batch_dims, int64_t mode,
               const Tensor& out) {
    TORCH_CHECK(mode == 0 || mode == 1, "mode is ", mode, ", supported are 0 and 1");
    const auto wrapped = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK(batch_dims >= 0 && batch_dims <= wrapped && batch_dims <= index.dim(), "batchDims is ",
                batch_dims, ", it must be from 0 to dim (", wrapped, ") and to the index's ", index.dim(),
                " dimensions");
    if (batch_dims == 0) return gather_into(self, wrapped, index, out);
    const auto data = self.flatten(0, batch_dims - 1), places = index.flatten(0, batch_dims - 1);
    TORCH_CHECK(data.size(0) == places.size(0), "self of shape ", self.sizes(), " and index of shape ",
                index.sizes(), " differ in their ", batch_dims, " batch dimensions");
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < data.size(0); ++i)
        rows.push_back(gather_v2(data[i], wrapped - batch_dims, places[i]));
    if (!rows.empty()) write(as_moved(out), at::stack(rows).reshape(out.sizes()));
}

void gather_nd(const Tensor& self, const Tensor& indices, bool negative, const Tensor& out) {
    const auto k = indices.size(-1);
    const auto rows = positions(indices, self.sizes(), negative);
    std::vector<int64_t> shape(rows.sizes().vec()), flat{1};
    for (int64_t i = 0; i < k; ++i) flat[0] *= self.size(i);
    for (int64_t i = k; i < self.dim(); ++i) {
        flat.push_back(self.size(i));
        shape.push_back(self.size(i));
    }
    write(as_moved(out),
          at::index_select(as_moved(self).reshape(flat), 0, rows.reshape({-1})).reshape(shape));
}

void gather(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
    const auto places = index.to(at::kLong);
    if (out.scalar_type() != self.scalar_type()) return write(out, at::gather(self, dim, places));
    fill(as_moved(out), [&](Tensor& to) { at::gather_out(to, as_moved(self), dim, places); });
}

void index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
               const Scalar& alpha, const Tensor& out) {
    start_from(self, out);
    const auto wrapped = at::maybe_wrap_dim(dim, self.dim());
    const auto rows = checked_index(index, self.dim() == 0 ? 1 : self.size(wrapped), wrapped);
    if (!is_narrow(out.scalar_type())) {
        out.index_add_(wrapped, rows, source.to(out.scalar_type()), alpha);
        return;
    }
    auto sums = out.to(at::kFloat);
    sums.index_add_(wrapped, rows, source.to(at::kFloat), alpha);
    out.copy_(sums);
}

Tensor rows_of(const Tensor& self, int64_t dim, const Tensor& index) {
    const auto wrapped = at::maybe_wrap_dim(dim, self.dim());
    return checked_index(index, self.dim() == 0 ? 1 : self.size(wrapped), wrapped, true);
}

void copy_rows(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
    self.index_copy_(dim, rows_of(self, dim, index), source.to(self.scalar_type()));
}
void fill_rows(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
    self.index_fill_(dim, rows_of(self, dim, index), value);
}
Tensor as_index(IntArrayRef index) { return at::tensor(index, at::kLong); }

void put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
    TORCH_CHECK(index.numel() == source.numel(), "index has ", index.numel(), " elements, source ",
                source.numel());
    auto places = index.to(at::kLong).reshape({-1});
    if (places.numel() == 0) return;
    if (!accumulate) {
        self.put_(places, source.to(self.scalar_type()).reshape({-1}), false);
        return;
    }
    places = checked_index(places, self.numel(), 0, true);
    auto flat = self.reshape({-1});
    accumulate_rows(flat, places, source.to(self.scalar_type()).reshape({-1}));
    if (flat.const_data_ptr() != self.const_data_ptr()) self.copy_(flat.view(self.sizes()));
}

const Table table{
    {"aclnnIndex", index},
    {"aclnnIndexPutImpl", index_put},
    {"aclnnIndexSelect", index_select},
    {"aclnnGather", gather},
    {"aclnnGatherV2", [](const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& out) { write(as_moved(out), gather_v2(self, dim, index)); }},
    {"aclnnGatherV3", gather_v3},
    {"aclnnGatherNd", gather_nd},
    {"aclnnIndexAdd", index_add},
    {"aclnnIndexAddV2",
     [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
        int64_t mode, const Tensor& out) {
         TORCH_CHECK(mode != 0 || alpha.equal(1),
                     "mode 0 ignores alpha on hardware: pass alpha 1 or another mode");
         index_add(self, dim, index, source, alpha, out);
     }},
    {"aclnnIndexCopy",
     [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
         start_from(self, out);
         copy_rows(out, dim, index, source);
     }},
    {"aclnnInplaceIndexCopy", copy_rows},
    {"aclnnIndexFill",
     [](const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Tensor& out) {
         start_from(self, out);
         fill_rows(out, dim, index, value);
     }},
    {"aclnnInplaceIndexFill", fill_rows},
    {"aclnnIndexFillTensor",
     [](const Tensor& self, int64_t dim, IntArrayRef index, const Scalar& value, const Tensor& out) {
         start_from(self, out);
         fill_rows(out, dim, as_index(index), value);
     }},
    {"aclnnInplaceIndexFillTensor",
     [](const Tensor& self, int64_t dim, IntArrayRef index, const Scalar& value) {
         fill_rows(self, dim, as_index(index), value);
     }},
    {"aclnnTake",
     [](const Tensor& self, const Tensor& index, const Tensor& out) {
         write(out, at::take(self, checked_index(index, self.numel(), 0, true)));
     }},
    {"aclnnInplacePut", put},
    {"aclnnInplaceMaskedScatter",
     [](const Tensor& self, const Tensor& mask, const Tensor& source) {
         self.masked_scatter_(mask.to(at::kBool), source.to(self.scalar_type()));
     }},
    {"aclnnMaskedSelect",
     [](const Tensor& self, const Tensor& mask, const DynamicOutput& out) {
         out.set(at::masked_select(self, mask.to(at::kBool)));
     }},
    {"aclnnNonzero", [](const Tensor& self, const DynamicOutput& out) { out.set(at::nonzero(self)); }},
    {"aclnnNonzeroV2", [](const Tensor& self, const DynamicOutput& out) { out.set(at::nonzero(self).t()); }},
};

}  // namespace
}  // namespace npu::emulator
