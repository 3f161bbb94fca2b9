// What is behind aclmdl*'s handles.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "aclop/handles.h"
#include "ge/engine/engine.h"

struct aclmdlDataset {
    std::vector<aclDataBuffer*> buffers;  ///< the caller's
    mutable std::vector<std::unique_ptr<aclTensorDesc>> descs;
    std::vector<npu::graph::TensorType> found;  ///< of outputs, by the last run
};

struct aclmdlDesc {
    std::shared_ptr<const npu::ge::Executable> executable;
};

namespace npu::ge {

struct LoadedModel {
    std::shared_ptr<const Executable> executable;
    void* workspace = nullptr;  ///< the caller's work memory; null: the engine's own
};

/// The model of that number, or null.
std::shared_ptr<const LoadedModel> find_model(uint32_t id);

/// Throws graph::GraphError.
std::shared_ptr<const Executable> compile_om(const void* model, std::size_t size);
std::vector<char> read_file(const char* path);

}  // namespace npu::ge
