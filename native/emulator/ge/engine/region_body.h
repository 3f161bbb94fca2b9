// From the steps that run together to the step that runs them.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "ge/engine/axes.h"
#include "ge/engine/program.h"

namespace npu::ge {

/// Steps that will run together, tile by tile.
struct Region {
    std::vector<int> steps;  ///< numbers, ascending
    std::vector<int> views;  ///< steps that look at members: for whoever is outside
    std::vector<int> axes;   ///< that tiles cut, outermost first; `whole` ones last
    std::vector<int> whole;  ///< axes that they do not cut: some member does not lie on them
    std::set<int> members;   ///< values that its steps make
    std::map<int, Layout> inputs_of_reductions;  ///< by step: where what it reduces lies
};

/// For each value that owns memory the steps that read it or a view on it; the number of steps for a result.
using Readers = std::map<int, std::vector<int>>;
Readers readers_of(const Program& program);

/// The step of Kind::fused. `layouts`: of the region's members and of views on them.
Step region_step(const Program& program, const Region& region, const Axes& axes,
                 const std::map<int, Layout>& layouts, const Readers& readers);

}  // namespace npu::ge
