#include "ge/engine/grid.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace npu::ge {
namespace {

constexpr int64_t kShortest = 16;  // elements in a row of a tile that is read across: a line of most caches

}  // namespace

Grid::Grid(std::vector<int64_t> sizes, std::size_t rows, int64_t elements, std::optional<std::size_t> across)
    : domain(std::move(sizes)), extents(domain.size(), 1), counts(domain.size(), 1) {
    int64_t left = elements;
    for (std::size_t i = rows; i < domain.size(); ++i) {
        extents[i] = domain[i];
        left /= extents[i];
    }
    if (across && rows == domain.size()) {
        int64_t &one = extents[*across], &other = extents.back();
        for (bool grows = true; grows;) {
            grows = false;
            for (const std::size_t axis : {*across, domain.size() - 1}) {
                if (extents[axis] == domain[axis] || one * other * 2 > left) continue;
                extents[axis] = std::min(extents[axis] * 2, domain[axis]);
                grows = true;
            }
        }
        left /= one * other;
    } else if (across) {
        extents[*across] = std::min(domain[*across], kShortest);
        left /= extents[*across];
    }
    for (std::size_t i = rows; i-- > 0 && left > 1;) {
        const int64_t before = extents[i];
        extents[i] = std::min(before * left, domain[i]);
        left = left * before / extents[i];
        if (extents[i] < domain[i]) break;
    }
    for (std::size_t i = 0; i < domain.size(); ++i) {
        counts[i] = (domain[i] + extents[i] - 1) / extents[i];
        tiles *= counts[i];
    }
}

void Grid::place(int64_t tile, Tile& found) const {
    found.starts.resize(domain.size());
    found.last = 0;
    for (std::size_t i = domain.size(); i-- > 0;) {
        const int64_t at = tile % counts[i];
        tile /= counts[i];
        found.starts[i] = at * extents[i];
        if (at == counts[i] - 1) found.last |= uint64_t{1} << i;
    }
}

std::vector<int64_t> Grid::sizes(const Tile& tile) const {
    std::vector<int64_t> found = extents;
    for (std::size_t i = 0; i < found.size(); ++i)
        found[i] = std::min(extents[i], domain[i] - tile.starts[i]);
    return found;
}

Window::Window(const at::Tensor& whole, std::vector<int64_t> strides, const Grid& grid)
    : whole_(whole),
      strides_(std::move(strides)),
      base_(whole.storage_offset()),
      bytes_(static_cast<std::byte*>(const_cast<void*>(whole.const_data_ptr()))),
      address_(bytes_),
      element_size_(static_cast<int64_t>(whole.element_size())) {
    for (std::size_t i = 0; i < strides_.size(); ++i)
        moves_ = moves_ || (strides_[i] != 0 && grid.counts[i] > 1);
}

void Window::move(const Tile& tile) {
    if (!moves_) return;
    int64_t offset = 0;
    for (std::size_t i = 0; i < strides_.size(); ++i) offset += tile.starts[i] * strides_[i];
    for (const at::Tensor& view : views_) view.unsafeGetTensorImpl()->set_storage_offset(base_ + offset);
    address_ = bytes_ + offset * element_size_;
}

at::Tensor Window::view(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    views_.push_back(whole_.as_strided(sizes, strides, base_));
    return views_.back();
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(sizes.size());
    int64_t stride = 1;
    for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) strides[i] = stride;
    return strides;
}

bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    const auto dense = dense_strides(sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] != 1 && strides[i] != dense[i]) return false;
    return true;
}

}  // namespace npu::ge
