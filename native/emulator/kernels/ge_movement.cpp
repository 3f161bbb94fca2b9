// GE operators that move or select elements, as torch_npu's aclop functions send them: shapes and indices are
// inputs here, where aclnn has arrays.
#include <numeric>

#include "kernels/widen.h"

namespace npu::emulator {
namespace {

void slice(const Tensor& x, IntArrayRef offsets, IntArrayRef size, const Tensor& y) {
    TORCH_CHECK(static_cast<int64_t>(offsets.size()) == x.dim() && offsets.size() == size.size(), "takes ",
                x.dim(), " offsets and sizes, got ", offsets.size(), " and ", size.size());
    Tensor part = x;
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
        const int64_t length = size[dim] == -1 ? x.size(dim) - offsets[dim] : size[dim];  // -1: to the end
        part = part.narrow(dim, offsets[dim], length);
    }
    write(y, part);
}

// The extreme value along a dimension and where it is. CANN's own kernel returns the first place among
// equals.
template <auto Function>
Entry extreme_with_place(const char* type) {
    return {Ge{type, {"dimension", "keep_dims", "indice_dtype"}},
            [](const Tensor& x, int64_t dim, std::optional<bool> keep, std::optional<ScalarType> place_type,
               const Tensor& place, const Tensor& value) {
                TORCH_CHECK(!place_type || *place_type == place.scalar_type(), "indice_dtype is ",
                            *place_type, ", the output is ", place.scalar_type());
                const auto [values, places] = Function(x, dim, keep.value_or(false));
                write(value, values);
                write(place, places);
            }};
}

std::tuple<Tensor, Tensor> largest(const Tensor& x, int64_t dim, bool keep) { return at::max(x, dim, keep); }
std::tuple<Tensor, Tensor> smallest(const Tensor& x, int64_t dim, bool keep) { return at::min(x, dim, keep); }

// var with updates at the places of indices along the dimension, which indices and updates lack.
void scatter_along(const Tensor& var, const Tensor& indices, const Tensor& updates, int64_t dim,
                   const Tensor& y) {
    const bool lacking = indices.dim() < var.dim();
    const Tensor places = (lacking ? indices.unsqueeze(dim) : indices).to(at::kLong);
    const Tensor values = updates.dim() < var.dim() ? updates.unsqueeze(dim) : updates;
    write(y, at::scatter(var, dim, places, values.to(var.scalar_type())));
}

void broadcast(const Tensor& x, IntArrayRef shape, const Tensor& y) { write(y, x.expand(shape)); }
void expand(const Tensor& x, IntArrayRef, const Tensor& y) { write(y, x.expand(y.sizes())); }
void permute(const Tensor& x, IntArrayRef perm, const Tensor& y) { write(y, x.permute(perm)); }
void tile(const Tensor& x, IntArrayRef multiples, const Tensor& y) { write(y, x.repeat(multiples)); }

void view_copy(const Tensor& dst, IntArrayRef dst_size, IntArrayRef dst_stride, int64_t dst_offset,
               const Tensor& src, IntArrayRef src_size, IntArrayRef src_stride, int64_t src_offset,
               const Tensor& out) {
    TORCH_CHECK(out.data_ptr() == dst.data_ptr(), "writes into dst: the output must be the same memory");
    dst.as_strided(dst_size, dst_stride, dst_offset).copy_(src.as_strided(src_size, src_stride, src_offset));
}

const Table table{
    {Ge{"BroadcastTo"}, broadcast},
    {Ge{"BroadcastToD", {"shape"}}, broadcast},
    // The shape may itself be broadcast against x: the output has the shape of both.
    {Ge{"Expand"}, expand},
    {Ge{"ExpandD", {"shape"}}, expand},
    {Ge{"Transpose"}, permute},
    {Ge{"TransposeD", {"perm"}}, permute},
    {Ge{"Permute", {"order"}}, permute},
    {Ge{"Tile"}, tile},
    {Ge{"TileD", {"multiples"}}, tile},
    {Ge{"Slice"}, slice},
    {Ge{"SliceD", {"offsets", "size"}}, slice},
    {Ge{"SliceDV2", {"size"}}, slice},
    {Ge{"AsStrided"},
     [](const Tensor& x, IntArrayRef size, IntArrayRef stride, int64_t offset, const Tensor& y) {
         const auto dense = x.contiguous();  // strides count elements of a dense x
         write(y, dense.as_strided(size, stride, dense.storage_offset() + offset));
     }},
    {Ge{"ViewCopy"}, view_copy},
    {Ge{"ArgMaxGrad", {"dimension"}}, scatter_along},
    extreme_with_place<largest>("ArgMaxWithValue"),
    extreme_with_place<smallest>("ArgMinWithValue"),
    {Ge{"SortV2", {"axis", "descending"}},
     [](const Tensor& x, std::optional<int64_t> axis, std::optional<bool> descending, const Tensor& y) {
         write(y, std::get<0>(at::sort(x, axis.value_or(-1), descending.value_or(false))));
     }},
};

}  // namespace
}  // namespace npu::emulator
