#include "kernels/indices.h"

#include "kernels/rows.h"
#include "kernels/widen.h"

namespace npu::emulator {

Tensor checked_index(const Tensor& index, int64_t size, int64_t dim, bool negative_allowed) {
    TORCH_CHECK(at::isIntegralType(index.scalar_type(), false), "indices must be integers, they are ",
                index.scalar_type());
    auto as_long = index.to(at::kLong).contiguous();
    if (as_long.numel() == 0) return as_long;
    const auto [low, high] = at::aminmax(as_long);
    const auto first = low.item<int64_t>(), last = high.item<int64_t>();
    const auto lowest = negative_allowed ? -size : 0;
    TORCH_CHECK_INDEX(first >= lowest && last < size, "index ", first < lowest ? first : last,
                      " is out of bounds for dimension ", dim, " with size ", size);
    return first < 0 ? at::where(as_long.lt(0), as_long + size, as_long) : as_long;
}

Tensor positions(const Tensor& index_rows, IntArrayRef shape, bool negative_allowed) {
    TORCH_CHECK(index_rows.dim() >= 1 && index_rows.size(-1) <= static_cast<int64_t>(shape.size()),
                "indices of shape ", index_rows.sizes(), " do not fit a tensor of shape ", shape);
    auto result = at::zeros(index_rows.sizes().slice(0, index_rows.dim() - 1), at::kLong);
    for (int64_t i = 0; i < index_rows.size(-1); ++i) {
        result.mul_(shape[i]).add_(checked_index(index_rows.select(-1, i), shape[i], i, negative_allowed));
    }
    return result;
}

void start_from(const Tensor& self, const Tensor& out) {
    TORCH_CHECK(out.sizes() == self.sizes(), "the output has shape ", out.sizes(), ", self has ",
                self.sizes());
    if (out.const_data_ptr() == self.const_data_ptr() && out.strides() == self.strides() &&
        out.scalar_type() == self.scalar_type()) {
        return;
    }
    out.copy_(self);
}

Tensor as_moved(const Tensor& tensor) {
    switch (tensor.scalar_type()) {
        case at::kUInt16:
            return tensor.view(at::kShort);
        case at::kUInt32:
            return tensor.view(at::kInt);
        case at::kUInt64:
            return tensor.view(at::kLong);
        default:
            return tensor;
    }
}

void accumulate_rows(const Tensor& self, const Tensor& rows, const Tensor& source) {
    if (self.scalar_type() == at::kFloat && source.scalar_type() == at::kFloat && self.is_contiguous()) {
        // ATen's index_add_ takes a microsecond a row.
        const auto from = source.contiguous(), places = rows.contiguous();
        const auto* place = places.const_data_ptr<int64_t>();
        const int64_t size = rows.numel() == 0 ? 0 : from.numel() / rows.numel();
        for (int64_t i = 0; i < rows.numel(); ++i)
            rows::add(self.mutable_data_ptr<float>() + place[i] * size,
                      from.const_data_ptr<float>() + i * size, size);
        return;
    }
    if (!is_narrow(self.scalar_type())) {
        self.index_add_(0, rows, source);
        return;
    }
    auto sums = self.to(at::kFloat);
    sums.index_add_(0, rows, source.to(at::kFloat));
    self.copy_(sums);
}

}  // namespace npu::emulator
