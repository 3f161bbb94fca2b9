// libge_compiler: CompiledGraphSummary.
#include "ge/doors/error.h"
#include "ge/doors/session_state.h"

namespace ge {

bool CompiledGraphSummary::IsStatic() const { return data_->summary.is_static; }

Status CompiledGraphSummary::GetOutputShapes(std::vector<Shape>& shapes) const {
    if (!IsStatic())
        return npu::ge::failed("GetOutputShapes: the graph is dynamic, its shapes are known when it runs");
    shapes.clear();
    for (const auto& type : data_->summary.outputs) shapes.emplace_back(type.dims);
    return kSuccess;
}

Status CompiledGraphSummary::GetOutputDtypes(std::vector<DataType>& types) const {
    types.clear();
    for (const auto& type : data_->summary.outputs) types.push_back(static_cast<DataType>(type.dtype));
    return kSuccess;
}

/// The engine keeps constants itself, on the host's heap.
Status CompiledGraphSummary::GetConstMemorySize(std::size_t& size) const {
    size = 0;
    return kSuccess;
}

Status CompiledGraphSummary::GetFeatureMemorySize(std::size_t& size) const {
    size = data_->summary.workspace;
    return kSuccess;
}

/// Dynamic graphs allocate as they go.
Status CompiledGraphSummary::GetFixedFeatureMemorySize(std::size_t& size) const {
    size = 0;
    return kSuccess;
}

Status CompiledGraphSummary::GetRefreshableFeatureMemorySize(std::size_t& size) const {
    return GetFeatureMemorySize(size);
}

Status CompiledGraphSummary::GetFeatureMemoryBaseRefreshable(bool& refreshable) const {
    refreshable = true;
    return kSuccess;
}

Status CompiledGraphSummary::GetStreamNum(std::size_t& count) const {
    count = 1;
    return kSuccess;
}

Status CompiledGraphSummary::GetEventNum(std::size_t& count) const {
    count = 0;
    return kSuccess;
}

Status CompiledGraphSummary::GetIOIndexesWithSameAddr(
    std::vector<std::pair<uint32_t, uint32_t>>& indexes) const {
    indexes = data_->summary.aliases;
    return kSuccess;
}

}  // namespace ge
