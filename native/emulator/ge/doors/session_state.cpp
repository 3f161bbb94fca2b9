#include "ge/doors/session_state.h"

#include "ge/doors/error.h"
#include "ge/doors/tensors.h"

namespace npu::ge {
namespace {

std::string about(uint32_t id) { return "graph " + std::to_string(id); }

}  // namespace

api::Status SessionState::add(uint32_t id, const api::Graph& graph) {
    if (!graph.impl_ || graph.impl_->model.graphs.empty())
        return failed("AddGraph: " + about(id) + " is empty");
    std::lock_guard lock(mutex_);
    graphs_[id] = {.model = graph.impl_->model, .executable = nullptr};
    return api::kSuccess;
}

api::Status SessionState::remove(uint32_t id) {
    std::lock_guard lock(mutex_);
    return graphs_.erase(id) == 1 ? api::kSuccess : failed("RemoveGraph: the session has no " + about(id));
}

SessionState::Loaded SessionState::find(uint32_t id) {
    graph::Model model;
    {
        std::lock_guard lock(mutex_);
        const auto found = graphs_.find(id);
        if (found == graphs_.end()) throw graph::GraphError("the session has no " + about(id));
        if (found->second.executable)
            return {{}, found->second.executable, found->second.workspace, found->second.workspace_size};
        model = found->second.model;
    }
    const auto executable = engine().compile(std::move(model), options_from_environment());
    std::lock_guard lock(mutex_);
    Loaded& loaded = graphs_[id];
    if (!loaded.executable) loaded.executable = executable;
    return {{}, loaded.executable, loaded.workspace, loaded.workspace_size};
}

api::Status SessionState::compile(uint32_t id) {
    try {
        find(id);
        return api::kSuccess;
    } catch (const std::exception& error) {
        return failed("compiling " + about(id) + ": " + error.what());
    }
}

api::SummaryPtr SessionState::summary(uint32_t id) {
    try {
        auto summary = std::make_shared<api::CompiledGraphSummary>();
        summary->data_ =
            std::make_shared<api::SummaryContent>(api::SummaryContent{find(id).executable->summary()});
        return summary;
    } catch (const std::exception& error) {
        set_error("summary of " + about(id) + ": " + error.what());
        return nullptr;
    }
}

api::Status SessionState::set_workspace(uint32_t id, const void* base, std::size_t size) {
    std::lock_guard lock(mutex_);
    const auto found = graphs_.find(id);
    if (found == graphs_.end()) return failed("the session has no " + about(id));
    const std::size_t needed = found->second.executable ? found->second.executable->summary().workspace : 0;
    if (size < needed)
        return failed("the feature memory of " + about(id) + " has " + std::to_string(size) +
                      " bytes, it needs " + std::to_string(needed));
    found->second.workspace = const_cast<void*>(base);
    found->second.workspace_size = size;
    return api::kSuccess;
}

api::Status SessionState::set_allocator(const void* stream, std::shared_ptr<api::Allocator> allocator) {
    std::lock_guard lock(mutex_);
    allocators_[stream] = std::move(allocator);
    return api::kSuccess;
}

std::shared_ptr<api::Allocator> SessionState::allocator(const void* stream) {
    std::lock_guard lock(mutex_);
    const auto found = allocators_.find(stream);
    return found == allocators_.end() ? nullptr : found->second;
}

template <class Tensor>
api::Status SessionState::run_any(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                  std::vector<Tensor>& outputs) {
    try {
        const Loaded loaded = find(id);
        std::vector<Buffer> in, out;
        for (const Tensor& tensor : inputs) in.push_back(to_buffer(tensor));
        const std::size_t count = loaded.executable->summary().outputs.size();
        if (outputs.empty()) outputs.resize(count);
        for (const Tensor& tensor : outputs) out.push_back(to_buffer(tensor));
        OutputMemory owner(allocator(stream));
        const RunMemory memory{loaded.workspace, [&](std::size_t bytes) { return owner.allocate(bytes); }};
        if (loaded.executable->run(stream, in, out, memory) != ACL_SUCCESS)
            return failed("running " + about(id) + ": " + aclGetRecentErrMsg());
        for (std::size_t i = 0; i < outputs.size(); ++i) owner.hand_out(out[i], outputs[i]);
        return api::kSuccess;
    } catch (const std::exception& error) {
        return failed("running " + about(id) + ": " + error.what());
    }
}

api::Status SessionState::run(uint32_t id, void* stream, const std::vector<api::Tensor>& inputs,
                              std::vector<api::Tensor>& outputs) {
    return run_any(id, stream, inputs, outputs);
}

api::Status SessionState::run(uint32_t id, void* stream, const std::vector<gert::Tensor>& inputs,
                              std::vector<gert::Tensor>& outputs) {
    return run_any(id, stream, inputs, outputs);
}

}  // namespace npu::ge
