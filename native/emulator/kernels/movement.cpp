// Values moved, joined, cut, repeated and padded, not computed with.
#include "kernels/indices.h"
#include "kernels/strided_slice.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

void cat(const std::vector<Tensor>& tensors, int64_t dim, const Tensor& out) {
    fill(out, [&](Tensor& to) { at::cat_out(to, tensors, dim); });
}

void stack(const std::vector<Tensor>& tensors, int64_t dim, const Tensor& out) {
    fill(out, [&](Tensor& to) { at::stack_out(to, tensors, dim); });
}

void write_all(const std::vector<Tensor>& out, const std::vector<Tensor>& parts) {
    TORCH_CHECK(out.size() == parts.size(), "there are ", out.size(), " outputs for ", parts.size(),
                " parts");
    for (std::size_t i = 0; i < out.size(); ++i) write(out[i], parts[i]);
}

void constant_pad(const Tensor& self, IntArrayRef pad, const Scalar& value, const Tensor& out) {
    write(out, at::constant_pad_nd(self, pad, value));
}

void expand(const Tensor& self, IntArrayRef size, const Tensor& out) { write(out, self.expand(size)); }

// Row i of the result is the sum of the repeats[i] rows of `gradient` that row i was repeated to.
void repeat_interleave_grad(const Tensor& gradient, const Tensor& repeats, int64_t axis, const Tensor& out) {
    const auto count = out.dim() == 0 ? 1 : out.size(axis);
    auto times = repeats.to(at::kLong).reshape({-1});
    if (times.numel() == 1) times = times.expand({count});
    TORCH_CHECK(times.numel() == count, "repeats has ", times.numel(), " elements, the output ", count,
                " slices along axis ", axis);
    const auto rows = at::repeat_interleave(times);
    auto sums = at::zeros(out.sizes(), gradient.options().dtype(wide_type(gradient.scalar_type())));
    write(out, sums.index_add_(axis, rows, widen(gradient)));
}

void confusion_transpose(const Tensor& x, IntArrayRef perm, IntArrayRef shape, bool transpose_first,
                         const Tensor& y) {
    write(y, transpose_first ? x.permute(perm).reshape(shape) : x.reshape(shape).permute(perm));
}

// One dimension of a slice with a step of either sign, bounds as Python's.
Tensor slice(const Tensor& self, int64_t dim, int64_t start, int64_t end, int64_t step) {
    TORCH_CHECK(step != 0, "the step of dimension ", dim, " is 0");
    if (step > 0) return self.slice(dim, start, end, step);
    const auto size = self.size(dim);
    const auto wrap = [size](int64_t at) {
        return std::clamp<int64_t>(at < 0 ? at + size : at, -1, size - 1);
    };
    const auto first = wrap(start), last = wrap(end);
    if (first <= last) return self.slice(dim, 0, 0);
    return self.flip(dim).slice(dim, size - 1 - first, size - 1 - last, -step);
}

void slice_v2(const Tensor& self, IntArrayRef starts, IntArrayRef ends, IntArrayRef axes, IntArrayRef steps,
              const Tensor& out) {
    TORCH_CHECK(starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
                "starts, ends, axes and steps differ in length");
    Tensor view = self;
    for (std::size_t i = 0; i < starts.size(); ++i) view = slice(view, axes[i], starts[i], ends[i], steps[i]);
    write(out, view);
}

}  // namespace

Tensor strided_slice(const Tensor& self, IntArrayRef begin, IntArrayRef end, IntArrayRef strides,
                     int64_t begin_mask, int64_t end_mask, int64_t ellipsis_mask, int64_t new_axis_mask,
                     int64_t shrink_mask) {
    TORCH_CHECK(begin.size() == end.size() && begin.size() == strides.size(), "begin, end and strides have ",
                begin.size(), ", ", end.size(), " and ", strides.size(), " elements");
    const auto has = [](int64_t mask, std::size_t i) { return (mask >> i & 1) != 0; };
    int64_t named_dims = 0;
    for (std::size_t i = 0; i < begin.size(); ++i)
        named_dims += !has(ellipsis_mask, i) && !has(new_axis_mask, i);
    Tensor view = self;
    int64_t dim = 0;
    for (std::size_t i = 0; i < begin.size(); ++i) {
        if (has(ellipsis_mask, i)) {
            dim += self.dim() - named_dims;
        } else if (has(new_axis_mask, i)) {
            view = view.unsqueeze(dim++);
        } else if (has(shrink_mask, i)) {
            const auto at = begin[i] < 0 ? begin[i] + view.size(dim) : begin[i];
            TORCH_CHECK_INDEX(at >= 0 && at < view.size(dim), "index ", begin[i],
                              " is out of bounds for dimension ", dim, " with size ", view.size(dim));
            view = view.select(dim, at);
        } else {
            const bool up = strides[i] > 0;
            const auto whole = std::numeric_limits<int64_t>::max();
            const auto from = has(begin_mask, i) ? (up ? 0 : whole) : begin[i];
            // Below every index, also after one size was added: where a downward slice without an end stops.
            const auto to = has(end_mask, i) ? (up ? whole : -view.size(dim) - 1) : end[i];
            view = slice(view, dim++, from, to, strides[i]);
        }
    }
    return view;
}

namespace {

void write_strided_slice(const Tensor& self, IntArrayRef begin, IntArrayRef end, IntArrayRef strides,
                         int64_t begin_mask, int64_t end_mask, int64_t ellipsis_mask, int64_t new_axis_mask,
                         int64_t shrink_mask, const Tensor& out) {
    write(out, strided_slice(self, begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                             shrink_mask));
}

// Without axes: the first dimensions, one a bound.
void strided_slice_assign(const Tensor& target, const Tensor& source, IntArrayRef begin, IntArrayRef end,
                          IntArrayRef strides, IntArrayRef axes) {
    TORCH_CHECK(begin.size() == end.size() && begin.size() == strides.size() &&
                    (axes.empty() || axes.size() == begin.size()),
                "begin, end, strides and axes differ in length");
    Tensor view = target;
    for (std::size_t i = 0; i < begin.size(); ++i) {
        TORCH_CHECK(strides[i] > 0, "the stride ", strides[i], " is not positive");
        view = view.slice(axes.empty() ? static_cast<int64_t>(i) : axes[i], begin[i], end[i], strides[i]);
    }
    write(view, source);
}

void one_hot(const Tensor& self, int64_t classes, const Tensor& on, const Tensor& off, int64_t axis,
             const Tensor& out) {
    TORCH_CHECK(axis >= -1 && axis <= self.dim(), "axis is ", axis, ", it must be from -1 to ", self.dim());
    if (classes == 0) return;
    const auto place = axis == -1 ? self.dim() : axis;
    std::vector<int64_t> shape(self.dim() + 1, 1);
    shape[place] = classes;
    const auto hit = self.unsqueeze(place).eq(at::arange(classes, self.options()).view(shape));
    write(out, at::where(hit, on.reshape({-1})[0], off.reshape({-1})[0]));
}

const Table table{
    {"aclnnCat", cat},
    {"aclnnStack", stack},
    {"aclnnChunkCat", [](const std::vector<Tensor>& tensors, int64_t dim, int64_t chunks,
                         const Tensor& out) { write(out, at::_chunk_cat(tensors, dim, chunks)); }},
    {"aclnnSplitTensor", [](const Tensor& self, int64_t size, int64_t dim,
                            const std::vector<Tensor>& out) { write_all(out, self.split(size, dim)); }},
    {"aclnnSplitWithSize",
     [](const Tensor& self, IntArrayRef sizes, int64_t dim, const std::vector<Tensor>& out) {
         write_all(out, self.split_with_sizes(sizes, dim));
     }},
    {"aclnnFlip", [](const Tensor& self, IntArrayRef dims,
                     const Tensor& out) { write(as_moved(out), as_moved(self).flip(dims)); }},
    {"aclnnRoll", [](const Tensor& x, IntArrayRef shifts, IntArrayRef dims,
                     const Tensor& out) { write(as_moved(out), at::roll(as_moved(x), shifts, dims)); }},
    {"aclnnRepeat",
     [](const Tensor& self, IntArrayRef repeats, const Tensor& out) { write(out, self.repeat(repeats)); }},
    {"aclnnRepeatInterleave",
     [](const Tensor& self, const Tensor& repeats, int64_t, const Tensor& out) {
         write(out, at::repeat_interleave(self.reshape({-1}), repeats, 0));
     }},
    {"aclnnRepeatInterleaveWithDim",
     [](const Tensor& self, const Tensor& repeats, int64_t dim, int64_t, const Tensor& out) {
         write(out, at::repeat_interleave(self, repeats, dim));
     }},
    {"aclnnRepeatInterleaveInt",
     [](const Tensor& self, int64_t repeats, int64_t, const Tensor& out) {
         write(out, at::repeat_interleave(self.reshape({-1}), repeats, 0));
     }},
    {"aclnnRepeatInterleaveIntWithDim",
     [](const Tensor& self, int64_t repeats, int64_t dim, int64_t, const Tensor& out) {
         write(out, at::repeat_interleave(self, repeats, dim));
     }},
    {"aclnnRepeatInterleaveTensor",
     [](const Tensor& repeats, int64_t, const Tensor& out) { write(out, at::repeat_interleave(repeats)); }},
    {"aclnnRepeatInterleaveGrad", repeat_interleave_grad},
    {"aclnnTril",
     [](const Tensor& self, int64_t diagonal, const Tensor& out) { write(out, at::tril(self, diagonal)); }},
    {"aclnnTriu",
     [](const Tensor& self, int64_t diagonal, const Tensor& out) { write(out, at::triu(self, diagonal)); }},
    {"aclnnPermute",
     [](const Tensor& self, IntArrayRef dims, const Tensor& out) { write(out, self.permute(dims)); }},
    {"aclnnConstantPadNd", constant_pad},
    {"aclnnExpand", expand},
    {"aclnnExpandv", expand},
    {"aclnnFlatten",
     [](const Tensor& self, int64_t axis, const Tensor& out) {
         const auto wrapped = at::maybe_wrap_dim(axis, self.dim());
         const int64_t rows = c10::multiply_integers(self.sizes().slice(0, wrapped));
         const int64_t columns = c10::multiply_integers(self.sizes().slice(wrapped));
         write(out, self.reshape({rows, columns}));
     }},
    {"aclnnSlice",
     [](const Tensor& self, int64_t dim, int64_t start, int64_t end, int64_t step, const Tensor& out) {
         write(out, slice(self, at::maybe_wrap_dim(dim, self.dim()), start, end, step));
     }},
    {"aclnnSliceV2", slice_v2},
    {"aclnnStridedSlice", write_strided_slice},
    {"aclnnStridedSliceAssignV2", strided_slice_assign},
    {"aclnnDiag",
     [](const Tensor& self, int64_t diagonal, const Tensor& out) { write(out, at::diag(self, diagonal)); }},
    {"aclnnDiagFlat", [](const Tensor& self, int64_t diagonal,
                         const Tensor& out) { write(out, at::diagflat(self, diagonal)); }},
    {"aclnnDiagPart",
     [](const Tensor& x, const Tensor& y) {
         TORCH_CHECK(x.dim() == 2, "x must be a matrix, it has shape ", x.sizes());
         write(y, x.diagonal());
     }},
    {"aclnnConfusionTranspose", confusion_transpose},
    {Ge{"ConfusionTransposeD", {"perm", "shape", "transpose_first"}},
     [](const Tensor& x, IntArrayRef perm, IntArrayRef shape, bool transpose_first, const Tensor& y) {
         confusion_transpose(x, perm, shape, transpose_first, y);
     }},
    {"aclnnUnfoldGrad",
     [](const Tensor& gradient, IntArrayRef sizes, int64_t dim, int64_t size, int64_t step,
        const Tensor& out) { write(out, at::unfold_backward(widen(gradient), sizes, dim, size, step)); }},
    {"aclnnOneHot", one_hot},
};

}  // namespace
}  // namespace npu::emulator
