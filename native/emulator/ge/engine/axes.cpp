#include "ge/engine/axes.h"

namespace npu::ge {

int Axes::add(int64_t size) {
    axes_.push_back({size});
    return static_cast<int>(axes_.size()) - 1;
}

void Axes::expand(int axis, std::vector<int>& found) const {
    if (axes_[axis].became.empty()) found.push_back(axis);
    for (const int part : axes_[axis].became) expand(part, found);
}

std::vector<int> Axes::now(std::span<const int> axes) const {
    std::vector<int> found;
    for (const int axis : axes) expand(axis, found);
    return found;
}

Layout Axes::now(const Layout& layout) const {
    Layout found;
    for (const auto& axes : layout) found.push_back(now(axes));
    return found;
}

void Axes::split(int axis, int64_t inner) {
    const int outer_part = add(axes_[axis].size / inner), inner_part = add(inner);
    axes_[axis].became = {outer_part, inner_part};
}

bool Axes::cut(std::span<const int> axes, int64_t inner) {
    const std::vector<int> present = now(axes);
    for (std::size_t i = present.size(); i-- > 0 && inner != 1;) {
        const int64_t size = axes_[present[i]].size;
        if (inner % size == 0) {
            inner /= size;
        } else if (size % inner == 0) {
            split(present[i], inner);
            return true;
        } else {
            return false;
        }
    }
    return inner == 1;
}

std::optional<Axes::Pairs> Axes::match(std::span<const int> ours, std::span<const int> theirs) {
    int64_t inner = 1;
    for (const int axis : now(theirs)) inner *= size(axis);
    for (const int axis : now(theirs)) {
        inner /= size(axis);
        if (!cut(ours, inner)) return std::nullopt;
    }
    inner = 1;
    for (const int axis : now(ours)) inner *= size(axis);
    for (const int axis : now(ours)) {
        inner /= size(axis);
        if (!cut(theirs, inner)) return std::nullopt;
    }
    const auto a = now(ours), b = now(theirs);
    if (a.size() != b.size()) return std::nullopt;
    Pairs pairs;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (size(a[i]) != size(b[i])) return std::nullopt;
        if (a[i] != b[i]) pairs.emplace_back(a[i], b[i]);
    }
    return pairs;
}

void Axes::merge(const Pairs& pairs) {
    for (const auto& [kept, gone] : pairs) {
        const auto from = now(std::span(&gone, 1)), to = now(std::span(&kept, 1));
        if (from.size() == 1 && to.size() == 1 && from != to) axes_[from.front()].became = to;
    }
}

}  // namespace npu::ge
