// Layouts as callers describe them. Ours are all row-major without tiles.
#pragma once

#include <string>
#include <vector>

#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

struct Shape;

inline constexpr std::size_t kMostDimensions = 64;

bool is_row_major(const PJRT_Buffer_MemoryLayout& layout, const Shape& shape);
/// Bytes from one element to the next in each dimension. Throws Status: tiles, or not a layout of the shape.
std::vector<int64_t> byte_strides(const PJRT_Buffer_MemoryLayout& layout, const Shape& shape);
std::vector<int64_t> row_major_strides(const Shape& shape);

/// Copies an array of the shape between two places in host memory.
void copy_strided(void* to, const std::vector<int64_t>& to_strides, const void* from,
                  const std::vector<int64_t>& from_strides, const Shape& shape);

/// What callers know as PJRT_Layouts_MemoryLayout.
class Layout {
  public:
    /// Row-major, of that many dimensions.
    explicit Layout(std::size_t rank);
    /// XLA's text, "{1,0}".
    const std::string& text() const { return text_; }
    /// One that lives for ever.
    static Layout* of_rank(std::size_t rank);

  private:
    std::string text_;
};

}  // namespace npu::pjrt
