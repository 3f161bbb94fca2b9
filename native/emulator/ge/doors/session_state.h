// What a session holds, whichever class the client reaches it by: ge::Session (v1) or ge::GeSession (v2).
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "ge/doors/ge_api.h"
#include "ge/engine/engine.h"

namespace ge {

struct SummaryContent {
    npu::ge::Summary summary;
};

}  // namespace ge

namespace npu::ge {

namespace api = ::ge;

/// The graphs of one session. Thread-safe; a graph runs outside the lock.
class SessionState {
  public:
    api::Status add(uint32_t id, const api::Graph& graph);
    api::Status remove(uint32_t id);
    api::Status compile(uint32_t id);
    api::SummaryPtr summary(uint32_t id);
    api::Status set_workspace(uint32_t id, const void* base, std::size_t size);
    api::Status set_allocator(const void* stream, std::shared_ptr<api::Allocator> allocator);

    api::Status run(uint32_t id, void* stream, const std::vector<api::Tensor>& inputs,
                    std::vector<api::Tensor>& outputs);
    api::Status run(uint32_t id, void* stream, const std::vector<gert::Tensor>& inputs,
                    std::vector<gert::Tensor>& outputs);

  private:
    struct Loaded {
        graph::Model model;
        std::shared_ptr<const Executable> executable;
        void* workspace = nullptr;  ///< the client's feature memory
        std::size_t workspace_size = 0;
    };
    /// A compiled graph ready to run; compiles it first where the client did not. Throws graph::GraphError.
    Loaded find(uint32_t id);
    std::shared_ptr<api::Allocator> allocator(const void* stream);

    template <class Tensor>
    api::Status run_any(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                        std::vector<Tensor>& outputs);

    std::mutex mutex_;
    std::unordered_map<uint32_t, Loaded> graphs_;
    std::unordered_map<const void*, std::shared_ptr<api::Allocator>> allocators_;
};

}  // namespace npu::ge
