// libge_runner: ge::Session (v1), the C functions over it that torchair looks up, GEInitialize.
#include <atomic>

#include "ge/doors/error.h"
#include "ge/doors/session_state.h"
#include "graph/catalogue.h"

#pragma GCC visibility push(default)
namespace ge {

/// As wide as its number: states are in a table of the process.
class Session {
  public:
    explicit Session(const Options& options);
    ~Session();
    Status AddGraph(uint32_t id, const Graph& graph, const Options& options);
    Status RemoveGraph(uint32_t id);
    Status CompileGraph(uint32_t id);
    SummaryPtr GetCompiledGraphSummary(uint32_t id);
    Status SetGraphConstMemoryBase(uint32_t id, const void* base, std::size_t size);
    Status UpdateGraphFeatureMemoryBase(uint32_t id, const void* base, std::size_t size);
    Status SetGraphFixedFeatureMemoryBase(uint32_t id, const void* base, std::size_t size);
    Status UpdateGraphRefreshableFeatureMemoryBase(uint32_t id, const void* base, std::size_t size);
    Status RegisterExternalAllocator(const void* stream, std::shared_ptr<Allocator> allocator) const;
    Status RunGraph(uint32_t id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
    Status RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                   std::vector<Tensor>& outputs);
    uint64_t GetSessionId() const { return id_; }

  private:
    uint64_t id_;
};
static_assert(sizeof(Session) == 8);

}  // namespace ge
#pragma GCC visibility pop

namespace {

using npu::ge::SessionState;

std::mutex table_mutex;
std::unordered_map<uint64_t, std::shared_ptr<SessionState>>& table() {
    static std::unordered_map<uint64_t, std::shared_ptr<SessionState>> states;
    return states;
}

/// Never null: a session that is not in the table has no graphs.
std::shared_ptr<SessionState> state(const ge::Session& session) {
    std::lock_guard lock(table_mutex);
    const auto found = table().find(session.GetSessionId());
    return found == table().end() ? std::make_shared<SessionState>() : found->second;
}

}  // namespace

#pragma GCC visibility push(default)
namespace ge {

Session::Session(const Options&) {
    static std::atomic<uint64_t> last{0};
    id_ = ++last;
    std::lock_guard lock(table_mutex);
    table().emplace(id_, std::make_shared<SessionState>());
}
Session::~Session() {
    std::lock_guard lock(table_mutex);
    table().erase(id_);
}
Status Session::AddGraph(uint32_t id, const Graph& graph, const Options&) {
    return state(*this)->add(id, graph);
}
Status Session::RemoveGraph(uint32_t id) { return state(*this)->remove(id); }
Status Session::CompileGraph(uint32_t id) { return state(*this)->compile(id); }
SummaryPtr Session::GetCompiledGraphSummary(uint32_t id) { return state(*this)->summary(id); }
/// Constants stay where the engine has them (see CompiledGraphSummary::GetConstMemorySize).
Status Session::SetGraphConstMemoryBase(uint32_t, const void*, std::size_t) { return kSuccess; }
Status Session::UpdateGraphFeatureMemoryBase(uint32_t id, const void* base, std::size_t size) {
    return state(*this)->set_workspace(id, base, size);
}
Status Session::SetGraphFixedFeatureMemoryBase(uint32_t, const void*, std::size_t) { return kSuccess; }
Status Session::UpdateGraphRefreshableFeatureMemoryBase(uint32_t id, const void* base, std::size_t size) {
    return state(*this)->set_workspace(id, base, size);
}
Status Session::RegisterExternalAllocator(const void* stream, std::shared_ptr<Allocator> allocator) const {
    return state(*this)->set_allocator(stream, std::move(allocator));
}
Status Session::RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                        std::vector<Tensor>& outputs) {
    return state(*this)->run(id, stream, inputs, outputs);
}
/// On the current context's default stream, and waits.
Status Session::RunGraph(uint32_t id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    if (const Status status = RunGraphWithStreamAsync(id, nullptr, inputs, outputs); status != kSuccess)
        return status;
    if (aclrtSynchronizeStream(nullptr) != ACL_SUCCESS)
        return npu::ge::failed(std::string("RunGraph: ") + aclGetRecentErrMsg());
    return kSuccess;
}

Status GEInitialize(const Options&) { return kSuccess; }
Status GEFinalize() { return kSuccess; }
AscendString GEGetErrorMsgV2() { return AscendString(npu::ge::last_error()); }
AscendString GEGetWarningMsgV2() { return AscendString(""); }

}  // namespace ge

// Looked up with dlsym.
extern "C" {

ge::Status GeSessionLoadGraph(ge::Session& session, uint32_t id, const ge::Options&, void*) {
    return session.CompileGraph(id);
}

ge::Status GeSessionExecuteGraphWithStreamAsync(ge::Session& session, uint32_t id, void* stream,
                                                const std::vector<gert::Tensor>& inputs,
                                                std::vector<gert::Tensor>& outputs) {
    return state(session)->run(id, stream, inputs, outputs);
}

/// Names and types of an operator's inputs, outputs and attributes, as its prototype has them.
ge::Status GetRegisteredIrDef(const char* type,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>>& inputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>>& outputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>>& attributes) {
    const auto* op = type ? npu::graph::find_operator(type) : nullptr;
    if (op == nullptr)
        return npu::ge::failed(std::string("there is no operator ") + (type ? type : "(null)"));
    static constexpr const char* arities[] = {"required", "optional", "dynamic"};
    const auto ports = [](const auto& from, auto& to) {
        for (const auto& port : from)
            to.emplace_back(port.name.c_str(), arities[static_cast<int>(port.arity)]);
    };
    ports(op->inputs, inputs);
    ports(op->outputs, outputs);
    for (const auto& attribute : op->attributes)
        attributes.emplace_back(attribute.name.c_str(), attribute.type.c_str());
    return ge::kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
