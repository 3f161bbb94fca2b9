// The axes of fused regions. A dimension of a value in a region lies on one axis, on several (a reshape has
// joined what another one keeps apart), or on none: it has one element. Axes are split as reshapes ask for
// it, and those of two regions become one where the regions do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace npu::ge {

/// For each dimension its axes, outermost first.
using Layout = std::vector<std::vector<int>>;

class Axes {
  public:
    using Pairs = std::vector<std::pair<int, int>>;

    int add(int64_t size);
    int64_t size(int axis) const { return axes_[axis].size; }

    /// The axes as they are now, after splits and merges.
    std::vector<int> now(std::span<const int> axes) const;
    Layout now(const Layout& layout) const;

    /// Splits so that the last axes have `inner` elements together. False: the sizes do not divide.
    bool cut(std::span<const int> axes, int64_t inner);

    /// Splits both until they have equal sizes one by one, and returns the axes that differ. Nothing: the
    /// sizes do not divide.
    std::optional<Pairs> match(std::span<const int> ours, std::span<const int> theirs);

    /// Makes each pair of (present) axes one.
    void merge(const Pairs& pairs);

  private:
    struct Axis {
        int64_t size;
        std::vector<int> became = {};  ///< outermost first; empty: it is as it was
    };
    void expand(int axis, std::vector<int>& found) const;
    void split(int axis, int64_t inner);

    std::vector<Axis> axes_;
};

}  // namespace npu::ge
