#include "kernels/tile_move.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace npu::emulator::tile {
namespace {

// Lines of the memory read that are under way at a time: with strides that are powers of two they all fall
// into one set of the first cache, which has 8 places or more.
constexpr int64_t kLines = 8;

template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}
template <class T>
void store(std::byte* to, const T& value) {
    std::memcpy(to, &value, sizeof(T));
}

template <class T>
void line(std::byte* to, const std::byte* from, const Move::Axis& axis) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    if (axis.to == kSize && axis.from == kSize) {
        std::memcpy(to, from, axis.size * kSize);
    } else if (axis.to == kSize && axis.from == 0) {
        const T value = load<T>(from);
        for (int64_t i = 0; i < axis.size; ++i) store(to + i * kSize, value);
    } else {
        for (int64_t i = 0; i < axis.size; ++i) store(to + i * axis.to, load<T>(from + i * axis.from));
    }
}

template <class T>
void plane(std::byte* to, const std::byte* from, const Move::Axis& rows, const Move::Axis& columns) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    if (columns.from == kSize || columns.from == 0 || columns.to != kSize || rows.from != kSize) {
        for (int64_t i = 0; i < rows.size; ++i) line<T>(to + i * rows.to, from + i * rows.from, columns);
        return;
    }
    int64_t first = 0;
    for (; first + kLines <= columns.size; first += kLines) {
        std::byte* const target = to + first * kSize;
        const std::byte* const source = from + first * columns.from;
        for (int64_t i = 0; i < rows.size; ++i) {
            std::array<T, kLines> values;
#pragma GCC unroll 8
            for (int64_t k = 0; k < kLines; ++k) values[k] = load<T>(source + k * columns.from + i * kSize);
            std::memcpy(target + i * rows.to, values.data(), sizeof values);
        }
    }
    for (; first < columns.size; ++first)
        for (int64_t i = 0; i < rows.size; ++i)
            store(to + first * kSize + i * rows.to, load<T>(from + first * columns.from + i * kSize));
}

using Plane = void (*)(std::byte*, const std::byte*, const Move::Axis&, const Move::Axis&);
struct Wide {
    std::array<uint64_t, 2> words;
};

Plane plane_of(std::size_t element) {
    switch (element) {
        case 1:
            return plane<uint8_t>;
        case 2:
            return plane<uint16_t>;
        case 4:
            return plane<uint32_t>;
        case 8:
            return plane<uint64_t>;
        case 16:
            return plane<Wide>;
        default:
            throw std::invalid_argument("no element has " + std::to_string(element) + " bytes");
    }
}

/// Takes the axis along which the memory is dense out of the others.
template <class F>
bool take(std::vector<Move::Axis>& axes, Move::Axis& taken, const F& dense) {
    const auto found = std::ranges::find_if(axes, dense);
    if (found == axes.end()) return false;
    taken = *found;
    axes.erase(found);
    return true;
}

void nest(Plane inner, std::byte* to, const std::byte* from, const std::vector<Move::Axis>& outer,
          std::size_t depth, const Move::Axis& rows, const Move::Axis& columns) {
    if (depth == outer.size()) return inner(to, from, rows, columns);
    for (int64_t i = 0; i < outer[depth].size; ++i)
        nest(inner, to + i * outer[depth].to, from + i * outer[depth].from, outer, depth + 1, rows, columns);
}

}  // namespace

Move::Move(std::vector<Axis> axes, std::size_t element) : element_(element) {
    plane_of(element);
    for (const Axis& axis : axes) {
        if (axis.size == 1) continue;
        Axis* const before = outer_.empty() ? nullptr : &outer_.back();
        if (before != nullptr && before->to == axis.to * axis.size && before->from == axis.from * axis.size) {
            *before = {before->size * axis.size, axis.to, axis.from};
        } else {
            outer_.push_back(axis);
        }
    }
    const auto size = static_cast<int64_t>(element);
    if (!take(outer_, columns_, [&](const Axis& axis) { return axis.to == size; }) && !outer_.empty()) {
        columns_ = outer_.back();
        outer_.pop_back();
    }
    if (!take(outer_, rows_, [&](const Axis& axis) { return axis.from == size; }) && !outer_.empty()) {
        rows_ = outer_.back();
        outer_.pop_back();
    }
}

void Move::run(void* to, const void* from) const {
    nest(plane_of(element_), static_cast<std::byte*>(to), static_cast<const std::byte*>(from), outer_, 0,
         rows_, columns_);
}

}  // namespace npu::emulator::tile
