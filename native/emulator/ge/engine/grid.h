// How the tiles of a fused region cut its axes, and windows that move from tile to tile.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace npu::ge {

/// Where a tile begins along each axis, and which of its axes end with the domain, a bit each.
struct Tile {
    std::vector<int64_t> starts;
    uint64_t last = 0;
};

struct Grid {
    std::vector<int64_t> domain;
    std::vector<int64_t> extents;  ///< of a tile that does not end with the domain
    std::vector<int64_t> counts;   ///< of tiles along each axis
    int64_t tiles = 1;

    Grid() = default;
    /// Tiles of about `elements`, cut along the first `rows` axes only. `across`: an axis along which some
    /// memory is dense that is not along the last one; tiles reach along both then.
    Grid(std::vector<int64_t> sizes, std::size_t rows, int64_t elements, std::optional<std::size_t> across);

    void place(int64_t tile, Tile& found) const;
    std::vector<int64_t> sizes(const Tile& tile) const;
};

/// Memory outside a region, as one tile sees it. Stays in its place: spots point into it.
class Window {
  public:
    /// `strides`: in elements, along each axis of the grid.
    Window(const at::Tensor& whole, std::vector<int64_t> strides, const Grid& grid);
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    void move(const Tile& tile);

    /// A tensor on the memory, that moves with the window.
    at::Tensor view(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
    const std::vector<int64_t>& strides() const { return strides_; }
    bool moves() const { return moves_; }
    std::byte* const* address() const { return &address_; }

  private:
    at::Tensor whole_;
    std::vector<int64_t> strides_;
    std::vector<at::Tensor> views_;
    int64_t base_;
    std::byte* bytes_;    ///< of the whole
    std::byte* address_;  ///< of the present tile
    int64_t element_size_;
    bool moves_ = false;
};

/// Strides of a row-major tensor.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);

/// Whether a tensor of these sizes and strides is row-major without gaps.
bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);

}  // namespace npu::ge
