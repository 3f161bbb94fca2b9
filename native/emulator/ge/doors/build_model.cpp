// libge_compiler: aclgrph*, which builds a graph into bytes that aclmdlLoadFromMem takes.
#include <cstring>

#include "ge/doors/error.h"
#include "ge/doors/ge_api.h"
#include "ge/engine/om.h"

#pragma GCC visibility push(default)
namespace ge {

/// Every option is taken: none changes what the emulator computes (SoC, precision mode, output reuse).
graphStatus aclgrphBuildInitialize(std::map<AscendString, AscendString>&) { return kSuccess; }
void aclgrphBuildFinalize() {}

/// Compiles the graph, so that what is wrong with it is said now, and packs it. Dynamic shapes are built too.
graphStatus aclgrphBuildModel(const Graph& graph, const std::map<AscendString, AscendString>&,
                              ModelBufferData& model) {
    if (!graph.IsValid()) return npu::ge::failed("aclgrphBuildModel: the graph is empty");
    try {
        const auto options = npu::ge::options_from_environment();
        npu::ge::engine().compile(graph.impl_->model, options);
        const auto packed = npu::ge::pack_om(graph.impl_->bytes, options);
        model.data = std::shared_ptr<uint8_t>(new uint8_t[packed.size()], std::default_delete<uint8_t[]>());
        std::memcpy(model.data.get(), packed.data(), packed.size());
        model.length = packed.size();
        return kSuccess;
    } catch (const std::exception& error) {
        return npu::ge::failed(std::string("aclgrphBuildModel: ") + error.what());
    }
}

graphStatus aclgrphGetIRVersion(int* major, int* minor, int* patch) {
    if (major == nullptr || minor == nullptr || patch == nullptr)
        return npu::ge::failed("aclgrphGetIRVersion: an argument is null");
    *major = 1;
    *minor = 0;
    *patch = 0;
    return kSuccess;
}

}  // namespace ge
#pragma GCC visibility pop
