#include "pjrt/layout.h"

#include <algorithm>
#include <cstring>

#include "pjrt/buffer.h"

namespace npu::pjrt {

std::vector<int64_t> row_major_strides(const Shape& shape) {
    std::vector<int64_t> strides(shape.dims.size());
    auto next = static_cast<int64_t>(element_size(shape.type));
    for (std::size_t i = strides.size(); i-- > 0;) {
        strides[i] = next;
        next *= std::max<int64_t>(shape.dims[i], 1);
    }
    return strides;
}

std::vector<int64_t> byte_strides(const PJRT_Buffer_MemoryLayout& layout, const Shape& shape) {
    const std::size_t rank = shape.dims.size();
    if (layout.type == PJRT_Buffer_MemoryLayout_Type_Strides) {
        const PJRT_Buffer_MemoryLayout_Strides& strides = layout.value.strides;
        if (strides.num_byte_strides != rank)
            throw invalid(std::to_string(strides.num_byte_strides) + " strides do not describe " +
                          shape.text());
        return {strides.byte_strides, strides.byte_strides + rank};
    }
    const PJRT_Buffer_MemoryLayout_Tiled& tiled = layout.value.tiled;
    if (tiled.num_tiles > 0) throw unimplemented("layouts in tiles are not possible on npu");
    if (tiled.minor_to_major_size != rank)
        throw invalid("an order of " + std::to_string(tiled.minor_to_major_size) +
                      " dimensions does not describe " + shape.text());
    std::vector<int64_t> strides(rank, -1);
    auto next = static_cast<int64_t>(element_size(shape.type));
    for (std::size_t i = 0; i < rank; ++i) {
        const int64_t dimension = tiled.minor_to_major[i];
        if (dimension < 0 || dimension >= static_cast<int64_t>(rank) || strides[dimension] != -1)
            throw invalid("a layout names dimension " + std::to_string(dimension) + " of " + shape.text() +
                          " twice or in vain");
        strides[dimension] = next;
        next *= std::max<int64_t>(shape.dims[dimension], 1);
    }
    return strides;
}

bool is_row_major(const PJRT_Buffer_MemoryLayout& layout, const Shape& shape) {
    const std::vector<int64_t> asked = byte_strides(layout, shape), ours = row_major_strides(shape);
    for (std::size_t i = 0; i < ours.size(); ++i)
        if (shape.dims[i] > 1 && asked[i] != ours[i] && shape.bytes > 0) return false;
    return true;
}

namespace {

struct Copier {
    const Shape& shape;
    const std::vector<int64_t>&to_strides, &from_strides;
    std::size_t element;
    std::size_t dense_from;  ///< dimensions from here on are dense on both sides
    std::size_t row;         ///< bytes of those

    void run(std::byte* to, const std::byte* from, std::size_t dimension) const {
        if (dimension == dense_from) {
            std::memcpy(to, from, row);
            return;
        }
        for (int64_t i = 0; i < shape.dims[dimension]; ++i)
            run(to + i * to_strides[dimension], from + i * from_strides[dimension], dimension + 1);
    }
};

}  // namespace

void copy_strided(void* to, const std::vector<int64_t>& to_strides, const void* from,
                  const std::vector<int64_t>& from_strides, const Shape& shape) {
    if (shape.bytes == 0) return;
    const std::size_t element = element_size(shape.type);
    Copier copier{shape, to_strides, from_strides, element, shape.dims.size(), element};
    while (copier.dense_from > 0) {
        const std::size_t i = copier.dense_from - 1;
        const auto row = static_cast<int64_t>(copier.row);
        if (shape.dims[i] > 1 && (to_strides[i] != row || from_strides[i] != row)) break;
        copier.row *= static_cast<std::size_t>(shape.dims[i]);
        copier.dense_from = i;
    }
    copier.run(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), 0);
}

Layout::Layout(std::size_t rank) : text_("{") {
    for (std::size_t i = rank; i-- > 0;) text_ += std::to_string(i) + (i == 0 ? "" : ",");
    text_ += "}";
}

Layout* Layout::of_rank(std::size_t rank) {
    static auto* layouts = [] {
        auto* made = new std::vector<Layout>;
        for (std::size_t each = 0; each <= kMostDimensions; ++each) made->emplace_back(each);
        return made;
    }();
    return &layouts->at(rank);
}

}  // namespace npu::pjrt
