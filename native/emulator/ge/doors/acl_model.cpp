// libascendcl: aclmdl*, the C door to compiled graphs. Loading and running; model descriptions are in
// acl_model_desc.cpp.
#include "ge/doors/acl_model.h"

#include <atomic>
#include <fstream>
#include <iterator>

#include "ge/engine/om.h"
#include "runtime/launch.h"

using npu::emulator::fail;
using npu::ge::Buffer;
using npu::ge::find_model;
using npu::ge::LoadedModel;
using npu::ge::read_file;

namespace npu::ge {
namespace {

struct Table {
    std::mutex mutex;
    std::unordered_map<uint32_t, std::shared_ptr<const LoadedModel>> models;
    uint32_t last = 0;
};

Table& table() {
    static Table instance;
    return instance;
}

}  // namespace

std::shared_ptr<const LoadedModel> find_model(uint32_t id) {
    std::lock_guard lock(table().mutex);
    const auto found = table().models.find(id);
    return found == table().models.end() ? nullptr : found->second;
}

std::shared_ptr<const Executable> compile_om(const void* model, std::size_t size) {
    const Om om = unpack_om({static_cast<const std::byte*>(model), size});
    return engine().compile(graph::read_model(om.model), om.options);
}

std::vector<char> read_file(const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw graph::GraphError(std::string("cannot read the model file ") + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace npu::ge

namespace {

/// Runs what may throw behind a C boundary.
template <class Body>
aclError guarded(const char* function, Body&& body) {
    if (const aclError code = npu::emulator::usable(function); code != ACL_SUCCESS) return code;
    try {
        return body();
    } catch (const std::exception& error) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": " + error.what());
    }
}

aclError null_argument(const char* function) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": an argument is null");
}

aclError load(const void* model, std::size_t size, void* workspace, std::size_t workspace_size,
              uint32_t* id) {
    auto loaded = std::make_shared<LoadedModel>();
    loaded->executable = npu::ge::compile_om(model, size);
    const std::size_t needed = loaded->executable->summary().workspace;
    if (workspace != nullptr && workspace_size < needed)
        return fail(ACL_ERROR_INVALID_PARAM, "loading a model: the work memory has " +
                                                 std::to_string(workspace_size) + " bytes, it needs " +
                                                 std::to_string(needed) + " (aclmdlQuerySize)");
    loaded->workspace = workspace;
    std::lock_guard lock(npu::ge::table().mutex);
    *id = ++npu::ge::table().last;
    npu::ge::table().models.emplace(*id, std::move(loaded));
    return ACL_SUCCESS;
}

/// The dataset's buffers; their shapes are the model's unless a descriptor was set (dynamic shapes).
std::vector<Buffer> buffers(const aclmdlDataset& dataset, const std::vector<npu::graph::TensorType>& types,
                            const char* what) {
    if (dataset.buffers.size() != types.size())
        throw npu::graph::GraphError("the dataset of " + std::string(what) + "s has " +
                                     std::to_string(dataset.buffers.size()) + " buffers, the model " +
                                     std::to_string(types.size()));
    std::vector<Buffer> made;
    for (std::size_t i = 0; i < types.size(); ++i) {
        Buffer buffer{dataset.buffers[i]->data, dataset.buffers[i]->size, types[i]};
        if (const aclTensorDesc* desc = dataset.descs[i].get()) {
            buffer.type = {desc->type, desc->dims};
            buffer.host = desc->placement == ACL_MEMTYPE_HOST;
        }
        made.push_back(std::move(buffer));
    }
    return made;
}

aclError execute(const char* function, uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                 aclrtStream stream) {
    return guarded(function, [&]() -> aclError {
        const auto model = find_model(id);
        if (!model)
            return fail(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID,
                        std::string(function) + ": there is no model " + std::to_string(id));
        if (input == nullptr || output == nullptr) return null_argument(function);
        const auto& summary = model->executable->summary();
        const auto inputs = buffers(*input, summary.inputs, "input");
        auto outputs = buffers(*output, summary.outputs, "output");
        std::vector<bool> allocated;
        for (const Buffer& buffer : outputs) allocated.push_back(buffer.data == nullptr);
        if (const aclError code = model->executable->run(stream, inputs, outputs, {model->workspace});
            code != ACL_SUCCESS)
            return code;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            output->found[i] = outputs[i].type;
            if (allocated[i])
                *output->buffers[i] = {outputs[i].data, outputs[i].size};  // as in CANN: the caller frees it
            if (aclTensorDesc* desc = output->descs[i].get()) {
                desc->type = outputs[i].type.dtype;
                desc->dims = outputs[i].type.dims;
            }
        }
        return ACL_SUCCESS;
    });
}

}  // namespace

aclError aclmdlLoadFromMem(const void* model, size_t modelSize, uint32_t* modelId) {
    return aclmdlLoadFromMemWithMem(model, modelSize, modelId, nullptr, 0, nullptr, 0);
}

aclError aclmdlLoadFromMemWithMem(const void* model, size_t modelSize, uint32_t* modelId, void* workPtr,
                                  size_t workSize, void*, size_t) {
    return guarded("aclmdlLoadFromMem", [&] {
        if (model == nullptr || modelId == nullptr) return null_argument("aclmdlLoadFromMem");
        return load(model, modelSize, workPtr, workSize, modelId);
    });
}

aclError aclmdlLoadFromFile(const char* modelPath, uint32_t* modelId) {
    return aclmdlLoadFromFileWithMem(modelPath, modelId, nullptr, 0, nullptr, 0);
}

aclError aclmdlLoadFromFileWithMem(const char* modelPath, uint32_t* modelId, void* workPtr, size_t workSize,
                                   void*, size_t) {
    return guarded("aclmdlLoadFromFile", [&] {
        if (modelPath == nullptr || modelId == nullptr) return null_argument("aclmdlLoadFromFile");
        const auto bytes = read_file(modelPath);
        return load(bytes.data(), bytes.size(), workPtr, workSize, modelId);
    });
}

aclError aclmdlUnload(uint32_t modelId) {
    std::lock_guard lock(npu::ge::table().mutex);
    if (npu::ge::table().models.erase(modelId) == 1) return ACL_SUCCESS;
    return fail(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID,
                "aclmdlUnload: there is no model " + std::to_string(modelId));
}

aclError aclmdlQuerySizeFromMem(const void* model, size_t modelSize, size_t* workSize, size_t* weightSize) {
    return guarded("aclmdlQuerySizeFromMem", [&] {
        if (model == nullptr || workSize == nullptr || weightSize == nullptr)
            return null_argument("aclmdlQuerySizeFromMem");
        *workSize = npu::ge::compile_om(model, modelSize)->summary().workspace;
        *weightSize = 0;  // constants stay with the engine
        return ACL_SUCCESS;
    });
}

aclError aclmdlQuerySize(const char* fileName, size_t* workSize, size_t* weightSize) {
    return guarded("aclmdlQuerySize", [&] {
        if (fileName == nullptr) return null_argument("aclmdlQuerySize");
        const auto bytes = read_file(fileName);
        return aclmdlQuerySizeFromMem(bytes.data(), bytes.size(), workSize, weightSize);
    });
}

aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output,
                            aclrtStream stream) {
    return execute("aclmdlExecuteAsync", modelId, input, output, stream);
}

aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output) {
    if (const aclError code = execute("aclmdlExecute", modelId, input, output, nullptr); code != ACL_SUCCESS)
        return code;
    return aclrtSynchronizeStream(nullptr);
}

// --- datasets

aclmdlDataset* aclmdlCreateDataset() { return new aclmdlDataset; }

aclError aclmdlDestroyDataset(const aclmdlDataset* dataset) {
    if (dataset == nullptr) return null_argument("aclmdlDestroyDataset");
    delete dataset;
    return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* dataBuffer) {
    if (dataset == nullptr || dataBuffer == nullptr) return null_argument("aclmdlAddDatasetBuffer");
    dataset->buffers.push_back(dataBuffer);
    dataset->descs.emplace_back();
    dataset->found.emplace_back();
    return ACL_SUCCESS;
}

/// The dataset keeps a copy of the descriptor.
aclError aclmdlSetDatasetTensorDesc(aclmdlDataset* dataset, aclTensorDesc* tensorDesc, size_t index) {
    if (dataset == nullptr) return null_argument("aclmdlSetDatasetTensorDesc");
    if (index >= dataset->descs.size())
        return fail(ACL_ERROR_INVALID_PARAM,
                    "aclmdlSetDatasetTensorDesc: there is no buffer " + std::to_string(index));
    dataset->descs[index] = tensorDesc ? std::make_unique<aclTensorDesc>(*tensorDesc) : nullptr;
    return ACL_SUCCESS;
}

/// The descriptor that was set, or one of what the last run wrote (the caller does not own it).
aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset* dataset, size_t index) {
    if (dataset == nullptr || index >= dataset->descs.size()) return nullptr;
    auto& desc = dataset->descs[index];
    if (!desc && dataset->found[index].present()) {
        desc = std::make_unique<aclTensorDesc>();
        desc->type = dataset->found[index].dtype;
        desc->dims = dataset->found[index].dims;
        desc->format = ACL_FORMAT_ND;
    }
    return desc.get();
}

size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset* dataset) {
    return dataset ? dataset->buffers.size() : 0;
}

aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index) {
    return dataset != nullptr && index < dataset->buffers.size() ? dataset->buffers[index] : nullptr;
}
