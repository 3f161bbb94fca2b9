// Writing a source at indices, with the reductions that CANN numbers.
#include <cstddef>
#include <cstring>

#include "kernels/indices.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

enum Reduction : int64_t { kNone, kAdd, kMultiply, kMax, kMin, kMean };

const char* reduce_name(int64_t reduce) {
    static constexpr const char* names[] = {"", "sum", "prod", "amax", "amin", "mean"};
    TORCH_CHECK(reduce >= kNone && reduce <= kMean, "reduce is ", reduce, ", known are 0 (none) to 5 (mean)");
    return names[reduce];
}

void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, int64_t reduce,
                    bool include_self) {
    const auto places = index.to(at::kLong);
    const auto source = src.to(self.scalar_type());
    const auto* name = reduce_name(reduce);
    if (reduce == kNone) {
        self.scatter_(dim, places, source);
    } else if (reduce == kAdd && include_self && !is_narrow(self.scalar_type())) {
        self.scatter_add_(dim, places, source);
    } else if (is_narrow(self.scalar_type())) {
        auto carried = self.to(at::kFloat);
        carried.scatter_reduce_(dim, places, source.to(at::kFloat), name, include_self);
        self.copy_(carried);
    } else if (self.is_complex() && reduce == kMultiply && include_self) {
        self.scatter_(dim, places, source, "multiply");
    } else {
        self.scatter_reduce_(dim, places, source, name, include_self);
    }
}

void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, int64_t reduce) {
    scatter_reduce(self, dim, index, src, reduce, true);
}

void scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                   int64_t reduce) {
    if (reduce == kNone) {
        self.scatter_(dim, index.to(at::kLong), value);
    } else {
        scatter(self, dim, index, at::full(index.sizes(), value, self.options()), reduce);
    }
}

std::vector<int64_t> joined(IntArrayRef head, IntArrayRef tail) {
    auto shape = head.vec();
    shape.insert(shape.end(), tail.begin(), tail.end());
    return shape;
}

// `target` as rows of its first `k` dimensions: a view, or a copy to be written back.
Tensor as_rows(const Tensor& target, int64_t k) {
    const auto head = target.sizes().slice(0, k);
    const int64_t rows = c10::multiply_integers(head);
    return target.reshape(joined({rows}, target.sizes().slice(k)));
}
void write_back(const Tensor& target, const Tensor& rows) {
    if (rows.const_data_ptr() != target.const_data_ptr()) target.copy_(rows.view(target.sizes()));
}

// target[indices[i]] = updates[i], indices a row per update.
void scatter_nd(const Tensor& target, const Tensor& indices, const Tensor& updates) {
    const auto k = indices.size(-1);
    const auto places = positions(indices, target.sizes());
    const auto shape = joined(places.sizes(), target.sizes().slice(k));
    TORCH_CHECK(updates.sizes() == at::IntArrayRef(shape), "updates has shape ", updates.sizes(),
                ", it must be ", at::IntArrayRef(shape));
    // One after the other: of several updates of a row the last counts.
    const auto rows = as_rows(target, k).contiguous();
    const auto sources = updates.to(target.scalar_type()).contiguous();
    if (const std::size_t size = places.numel() == 0 ? 0 : sources.nbytes() / places.numel(); size > 0) {
        const auto flat = places.contiguous();
        auto* to = static_cast<std::byte*>(rows.mutable_data_ptr());
        const auto* from = static_cast<const std::byte*>(sources.const_data_ptr());
        for (int64_t i = 0; i < flat.numel(); ++i)
            std::memcpy(to + flat.const_data_ptr<int64_t>()[i] * size, from + i * size, size);
    }
    write_back(target, rows);
}

// target[indices[i]] (op)= updates[i], one update after the other.
template <class F>
void update_rows(const Tensor& target, const Tensor& indices, const Tensor& updates, F&& update) {
    const auto shape = joined(indices.sizes(), target.sizes().slice(1));
    TORCH_CHECK(updates.sizes() == at::IntArrayRef(shape), "updates has shape ", updates.sizes(),
                ", it must be ", at::IntArrayRef(shape));
    const auto places = checked_index(indices, target.size(0), 0).reshape({-1});
    const auto sources = updates.reshape(joined({places.numel()}, target.sizes().slice(1)));
    const auto* place = places.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < places.numel(); ++i) update(target[place[i]], sources[i]);
}

void scatter_div(const Tensor& target, const Tensor& indices, const Tensor& updates, bool) {
    const bool integral = at::isIntegralType(target.scalar_type(), true);
    TORCH_CHECK(!integral || updates.ne(0).all().item<bool>(),
                "updates holds a zero: an integer division by it");
    update_rows(target, indices, updates, [&](Tensor row, const Tensor& update) {
        integral ? row.div_(update, "trunc") : row.div_(update);
    });
}

// Either whole slices of the first dimension, or rows of indices as scatter_nd takes them.
void tf_scatter_add(const Tensor& target, const Tensor& indices, const Tensor& updates) {
    if (updates.sizes() == at::IntArrayRef(joined(indices.sizes(), target.sizes().slice(1)))) {
        const auto places = checked_index(indices, target.size(0), 0).reshape({-1});
        accumulate_rows(target, places, updates.reshape(joined({places.numel()}, target.sizes().slice(1))));
        return;
    }
    const auto k = indices.size(-1);
    const auto places = positions(indices, target.sizes());
    const auto shape = joined(places.sizes(), target.sizes().slice(k));
    TORCH_CHECK(updates.sizes() == at::IntArrayRef(shape), "updates has shape ", updates.sizes(),
                ", it must be ", at::IntArrayRef(shape), " for indices of shape ", indices.sizes());
    const auto rows = as_rows(target, k);
    accumulate_rows(rows, places.reshape({-1}),
                    updates.reshape(joined({places.numel()}, target.sizes().slice(k))));
    write_back(target, rows);
}

// Updates of one batch entry each, from an offset along `axis` on: the write into a key/value cache.
void update_slice(const Tensor& entry, int64_t axis, int64_t offset, const Tensor& update) {
    const auto size = entry.size(axis), length = update.size(axis);
    TORCH_CHECK_INDEX(offset >= 0 && offset + length <= size, "index ", offset, " with an update of length ",
                      length, " is out of bounds for dimension ", axis, " with size ", size);
    entry.narrow(axis, offset, length).copy_(update);
}

void scatter_update(const Tensor& data, const Tensor& indices, const Tensor& updates, int64_t axis) {
    TORCH_CHECK(indices.dim() == 1 && indices.size(0) == data.size(0), "indices of shape ", indices.sizes(),
                " are not supported: one offset per entry of the first dimension (", data.size(0), ") is");
    const auto wrapped = at::maybe_wrap_dim(axis, data.dim());
    TORCH_CHECK(wrapped > 0, "axis is ", axis, ", it must not be the first dimension");
    const auto offsets = indices.to(at::kLong).contiguous();
    for (int64_t i = 0; i < offsets.numel(); ++i) {
        update_slice(data[i], wrapped - 1, offsets.const_data_ptr<int64_t>()[i], updates[i]);
    }
}

void scatter_list(const std::vector<Tensor>& targets, const Tensor& indices, const Tensor& updates,
                  const std::optional<Tensor>& mask, const std::string& reduce, int64_t axis) {
    TORCH_CHECK(reduce == "update", "reduce is \"", reduce, "\", only \"update\" exists");
    const auto count = static_cast<int64_t>(targets.size());
    TORCH_CHECK(indices.dim() == 1 && indices.size(0) == count, "indice of shape ", indices.sizes(),
                " is not supported: one offset per tensor of the list (", count, ") is");
    TORCH_CHECK(!mask || mask->numel() == count, "mask has ", mask ? mask->numel() : 0, " elements for ",
                count, " tensors");
    const auto wrapped = at::maybe_wrap_dim(axis, updates.dim());
    TORCH_CHECK(wrapped > 0, "axis is ", axis, ", it must not be the first dimension of updates");
    const auto offsets = indices.to(at::kLong).contiguous();
    const auto chosen = mask ? mask->to(at::kBool).contiguous() : at::ones({count}, at::kBool);
    for (int64_t i = 0; i < count; ++i) {
        if (!chosen.const_data_ptr<bool>()[i]) continue;
        update_slice(targets[i], wrapped - 1, offsets.const_data_ptr<int64_t>()[i], updates[i]);
    }
}

const Table table{
    {"aclnnScatter",
     [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, int64_t reduce,
        const Tensor& out) {
         start_from(self, out);
         scatter(out, dim, index, src, reduce);
     }},
    {"aclnnInplaceScatter", scatter},
    {"aclnnScatterValue",
     [](const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, int64_t reduce,
        const Tensor& out) {
         start_from(self, out);
         scatter_value(out, dim, index, value, reduce);
     }},
    {"aclnnInplaceScatterValue", scatter_value},
    {"aclnnScatterAdd",
     [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
         start_from(self, out);
         scatter(out, dim, index, src, kAdd);
     }},
    {"aclnnScatterReduce",
     [](const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, int64_t reduce,
        bool include_self, const Tensor& out) {
         start_from(self, out);
         scatter_reduce(out, dim, index, src, reduce, include_self);
     }},
    {"aclnnInplaceScatterReduce", scatter_reduce},
    {"aclnnScatterNd",
     [](const Tensor& data, const Tensor& indices, const Tensor& updates, const Tensor& out) {
         start_from(data, out);
         scatter_nd(out, indices, updates);
     }},
    {"aclnnScatterNdUpdate", scatter_nd},
    {"aclnnTfScatterAdd", tf_scatter_add},
    {"aclnnScatterMul",
     [](const Tensor& target, const Tensor& indices, const Tensor& updates, bool) {
         update_rows(target, indices, updates, [](Tensor row, const Tensor& update) { row.mul_(update); });
     }},
    {"aclnnScatterDiv", scatter_div},
    {"aclnnScatterMax",
     [](const Tensor& target, const Tensor& indices, const Tensor& updates, bool) {
         update_rows(target, indices, updates,
                     [](const Tensor& row, const Tensor& update) { row.copy_(at::maximum(row, update)); });
     }},
    {"aclnnScatterMin",
     [](const Tensor& target, const Tensor& indices, const Tensor& updates, bool) {
         update_rows(target, indices, updates,
                     [](const Tensor& row, const Tensor& update) { row.copy_(at::minimum(row, update)); });
     }},
    {"aclnnInplaceScatterUpdate", scatter_update},
    {"aclnnScatterList", scatter_list},
};

}  // namespace
}  // namespace npu::emulator
