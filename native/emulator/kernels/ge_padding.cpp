// GE's paddings with constants and with the tensor's own elements, and the gradient of the latter.
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

struct Edges {
    std::vector<int64_t> before, after;

    // Pairs (before, after) dimension by dimension; not contiguous: all before, then all after.
    Edges(const Tensor& x, IntArrayRef paddings, bool contiguous = true) {
        const auto dims = x.dim();
        TORCH_CHECK(static_cast<int64_t>(paddings.size()) == 2 * dims, "takes ", 2 * dims, " paddings, got ",
                    paddings.size());
        for (int64_t dim = 0; dim < dims; ++dim) {
            before.push_back(paddings[contiguous ? 2 * dim : dim]);
            after.push_back(paddings[contiguous ? 2 * dim + 1 : dims + dim]);
        }
    }
};

// Written straight to the output, which has the padded shape; negative edges cut.
void with_constant(const Tensor& x, const Edges& by, const Scalar& value, const Tensor& y) {
    bool fits = x.scalar_type() == y.scalar_type() && x.dim() == y.dim();
    for (int64_t dim = 0; fits && dim < x.dim(); ++dim)
        fits = by.before[dim] >= 0 && by.after[dim] >= 0 &&
               by.before[dim] + x.size(dim) + by.after[dim] == y.size(dim);
    if (fits) {
        y.fill_(value);
        Tensor inside = y;
        for (int64_t dim = 0; dim < x.dim(); ++dim) inside = inside.narrow(dim, by.before[dim], x.size(dim));
        inside.copy_(x);
        return;
    }
    std::vector<int64_t> reversed;  // ATen wants the last dimension first
    for (int64_t dim = x.dim() - 1; dim >= 0; --dim) {
        reversed.push_back(by.before[dim]);
        reversed.push_back(by.after[dim]);
    }
    write(y, at::constant_pad_nd(x, reversed, value));
}

// Where in a dimension of `size` each place of the padded dimension takes its element from.
Tensor sources(int64_t size, int64_t before, int64_t after, const std::string& mode) {
    auto place = at::arange(-before, size + after, at::kLong);
    if (mode == "edge") return place.clamp(0, size - 1);
    const auto most = mode == "reflect" ? size - 1 : size;
    TORCH_CHECK(before <= most && after <= most, "mode ", mode, " pads a dimension of size ", size,
                " by at most ", most, ", asked for ", before, " and ", after);
    if (mode == "circular") return at::remainder(place, std::max<int64_t>(size, 1));
    const bool repeats = mode == "symmetric";  // the element at the edge is its own neighbour
    TORCH_CHECK(repeats || mode == "reflect", "mode is ", mode,
                "; known are constant, reflect, symmetric, edge and circular");
    place = at::where(place < 0, -place - (repeats ? 1 : 0), place);
    return at::where(place >= size, 2 * size - (repeats ? 1 : 2) - place, place);
}

Tensor with_own(Tensor x, const Edges& by, const std::string& mode) {
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
        if (by.before[dim] == 0 && by.after[dim] == 0) continue;
        x = x.index_select(dim, sources(x.size(dim), by.before[dim], by.after[dim], mode));
    }
    return x;
}

// Every element gathers the gradients of the places that took it.
void gradient(const Tensor& x, IntArrayRef paddings, const std::optional<std::string>& mode,
              std::optional<bool> contiguous, const Tensor& y) {
    const Edges by(x, paddings, contiguous.value_or(true));
    Tensor sum = widen(x);
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
        if (by.before[dim] == 0 && by.after[dim] == 0) continue;
        auto shape = sum.sizes().vec();
        shape[dim] = y.size(dim);
        const auto from = sources(y.size(dim), by.before[dim], by.after[dim], mode.value_or("reflect"));
        TORCH_CHECK(from.numel() == sum.size(dim), "dimension ", dim, " of the gradient has size ",
                    sum.size(dim), ", padded it must be ", from.numel());
        sum = at::zeros(shape, sum.options()).index_add_(dim, from, sum);
    }
    write(y, sum);
}

const Table table{
    {Ge{"Pad"}, [](const Tensor& x, IntArrayRef paddings,
                   const Tensor& y) { with_constant(x, Edges(x, paddings), 0, y); }},
    {Ge{"PadV2"},
     [](const Tensor& x, IntArrayRef paddings, const Tensor& value, const Tensor& y) {
         with_constant(x, Edges(x, paddings), only_element(value, "constant_values"), y);
     }},
    {Ge{"PadV3", {"mode", "paddings_contiguous"}},
     [](const Tensor& x, IntArrayRef paddings, const std::optional<Tensor>& value,
        const std::optional<std::string>& mode, std::optional<bool> contiguous, const Tensor& y) {
         const Edges by(x, paddings, contiguous.value_or(true));
         if (mode.value_or("constant") != "constant") return write(y, with_own(x, by, *mode));
         with_constant(x, by, value ? only_element(*value, "constant_values") : Scalar(0), y);
     }},
    {Ge{"PadV3Grad", {"mode", "paddings_contiguous"}}, gradient},
    {Ge{"MirrorPad", {"mode"}},
     [](const Tensor& x, IntArrayRef paddings, const std::string& mode, const Tensor& y) {
         TORCH_CHECK(mode == "REFLECT" || mode == "SYMMETRIC", "mode is ", mode,
                     ", it must be REFLECT or SYMMETRIC");
         write(y, with_own(x, Edges(x, paddings), mode == "REFLECT" ? "reflect" : "symmetric"));
     }},
};

}  // namespace
}  // namespace npu::emulator
