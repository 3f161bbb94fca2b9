// libge_runner_v2: ge::GeSession on gert::Tensor.
#include "ge/doors/error.h"
#include "ge/doors/session_state.h"

#pragma GCC visibility push(default)
namespace ge {

class GeSession {
  public:
    explicit GeSession(const Options& options);
    ~GeSession();
    Status AddGraph(uint32_t id, const Graph& graph, const Options& options);
    Status RemoveGraph(uint32_t id);
    Status CompileGraph(uint32_t id);
    Status LoadGraph(uint32_t id, const Options& options, void* stream) const;
    SummaryPtr GetCompiledGraphSummary(uint32_t id);
    Status SetGraphConstMemoryBase(uint32_t id, const void* base, std::size_t size);
    Status UpdateGraphFeatureMemoryBase(uint32_t id, const void* base, std::size_t size);
    Status RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<gert::Tensor>& inputs,
                                   std::vector<gert::Tensor>& outputs);

  private:
    std::shared_ptr<npu::ge::SessionState> impl_;
};
static_assert(sizeof(GeSession) == 16);

GeSession::GeSession(const Options&) : impl_(std::make_shared<npu::ge::SessionState>()) {}
GeSession::~GeSession() = default;
Status GeSession::AddGraph(uint32_t id, const Graph& graph, const Options&) { return impl_->add(id, graph); }
Status GeSession::RemoveGraph(uint32_t id) { return impl_->remove(id); }
Status GeSession::CompileGraph(uint32_t id) { return impl_->compile(id); }
Status GeSession::LoadGraph(uint32_t id, const Options&, void*) const { return impl_->compile(id); }
SummaryPtr GeSession::GetCompiledGraphSummary(uint32_t id) { return impl_->summary(id); }
Status GeSession::SetGraphConstMemoryBase(uint32_t, const void*, std::size_t) { return kSuccess; }
Status GeSession::UpdateGraphFeatureMemoryBase(uint32_t id, const void* base, std::size_t size) {
    return impl_->set_workspace(id, base, size);
}
Status GeSession::RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<gert::Tensor>& inputs,
                                          std::vector<gert::Tensor>& outputs) {
    return impl_->run(id, stream, inputs, outputs);
}

Status GEInitializeV2(const Options&) { return kSuccess; }
Status GEFinalizeV2() { return kSuccess; }
AscendString GEGetErrorMsgV3() { return AscendString(npu::ge::last_error()); }
AscendString GEGetWarningMsgV3() { return AscendString(""); }

}  // namespace ge
#pragma GCC visibility pop
