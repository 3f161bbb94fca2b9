// libascendcl: aclmdlDesc, what a loaded model takes and gives.
#include <algorithm>
#include <cstring>

#include "ge/doors/acl_model.h"
#include "runtime/launch.h"

using npu::emulator::fail;

namespace {

using Types = std::vector<npu::graph::TensorType>;
using Names = std::vector<std::string>;

const npu::ge::Summary* summary(const aclmdlDesc* desc) {
    return desc != nullptr && desc->executable ? &desc->executable->summary() : nullptr;
}

aclError not_described(const char* function) {
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(function) +
                    ": the description is empty (aclmdlGetDesc fills it), or an argument is null");
}

const Types* types(const aclmdlDesc* desc, bool inputs) {
    const auto* found = summary(desc);
    return found == nullptr ? nullptr : inputs ? &found->inputs : &found->outputs;
}

const npu::graph::TensorType* type_at(const aclmdlDesc* desc, bool inputs, std::size_t index) {
    const Types* all = types(desc, inputs);
    return all != nullptr && index < all->size() ? &(*all)[index] : nullptr;
}

/// Bytes; 0 where a size is not known before the run, as CANN answers.
std::size_t bytes(const npu::graph::TensorType* type) {
    if (type == nullptr || !type->is_static()) return 0;
    return static_cast<std::size_t>(type->elements()) * npu::graph::element_size(type->dtype);
}

const char* name_at(const aclmdlDesc* desc, bool inputs, std::size_t index) {
    const auto* found = summary(desc);
    if (found == nullptr) return "";
    const Names& names = inputs ? found->input_names : found->output_names;
    return index < names.size() ? names[index].c_str() : "";
}

aclError dims_at(const char* function, const aclmdlDesc* desc, bool inputs, std::size_t index,
                 aclmdlIODims* dims) {
    const auto* type = type_at(desc, inputs, index);
    if (type == nullptr || dims == nullptr) return not_described(function);
    *dims = {};
    std::strncpy(dims->name, name_at(desc, inputs, index), sizeof dims->name - 1);
    if (!type->ranked) {
        dims->dimCount = 1;
        dims->dims[0] = -2;  // CANN's mark of an unknown rank
        return ACL_SUCCESS;
    }
    dims->dimCount = type->dims.size();
    std::ranges::copy(type->dims, dims->dims);
    return ACL_SUCCESS;
}

aclError index_of(const char* function, const aclmdlDesc* desc, bool inputs, const char* name,
                  std::size_t* index) {
    const auto* found = summary(desc);
    if (found == nullptr || name == nullptr || index == nullptr) return not_described(function);
    const Names& names = inputs ? found->input_names : found->output_names;
    const auto at = std::ranges::find(names, name);
    if (at == names.end())
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(function) + ": the model has no " + (inputs ? "input " : "output ") + name);
    *index = at - names.begin();
    return ACL_SUCCESS;
}

template <class Compile>
aclError describe(const char* function, aclmdlDesc* desc, Compile&& compile) {
    if (desc == nullptr) return not_described(function);
    try {
        desc->executable = compile();
        return ACL_SUCCESS;
    } catch (const std::exception& error) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": " + error.what());
    }
}

}  // namespace

aclmdlDesc* aclmdlCreateDesc() { return new aclmdlDesc; }

aclError aclmdlDestroyDesc(aclmdlDesc* modelDesc) {
    if (modelDesc == nullptr) return not_described("aclmdlDestroyDesc");
    delete modelDesc;
    return ACL_SUCCESS;
}

aclError aclmdlGetDesc(aclmdlDesc* modelDesc, uint32_t modelId) {
    const auto model = npu::ge::find_model(modelId);
    if (!model)
        return fail(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID,
                    "aclmdlGetDesc: there is no model " + std::to_string(modelId));
    return describe("aclmdlGetDesc", modelDesc, [&] { return model->executable; });
}

aclError aclmdlGetDescFromMem(aclmdlDesc* modelDesc, const void* model, size_t modelSize) {
    if (model == nullptr) return not_described("aclmdlGetDescFromMem");
    return describe("aclmdlGetDescFromMem", modelDesc, [&] { return npu::ge::compile_om(model, modelSize); });
}

aclError aclmdlGetDescFromFile(aclmdlDesc* modelDesc, const char* modelPath) {
    if (modelPath == nullptr) return not_described("aclmdlGetDescFromFile");
    return describe("aclmdlGetDescFromFile", modelDesc, [&] {
        const auto bytes = npu::ge::read_file(modelPath);
        return npu::ge::compile_om(bytes.data(), bytes.size());
    });
}

size_t aclmdlGetNumInputs(aclmdlDesc* modelDesc) {
    return summary(modelDesc) ? summary(modelDesc)->inputs.size() : 0;
}
size_t aclmdlGetNumOutputs(aclmdlDesc* modelDesc) {
    return summary(modelDesc) ? summary(modelDesc)->outputs.size() : 0;
}
size_t aclmdlGetInputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
    return bytes(type_at(modelDesc, true, index));
}
size_t aclmdlGetOutputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
    return bytes(type_at(modelDesc, false, index));
}

aclError aclmdlGetInputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
    return dims_at("aclmdlGetInputDims", modelDesc, true, index, dims);
}
aclError aclmdlGetInputDimsV2(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
    return dims_at("aclmdlGetInputDimsV2", modelDesc, true, index, dims);
}
aclError aclmdlGetOutputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
    return dims_at("aclmdlGetOutputDims", modelDesc, false, index, dims);
}
aclError aclmdlGetCurOutputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
    return dims_at("aclmdlGetCurOutputDims", modelDesc, false, index, dims);
}

const char* aclmdlGetInputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
    return name_at(modelDesc, true, index);
}
const char* aclmdlGetOutputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
    return name_at(modelDesc, false, index);
}
aclError aclmdlGetInputIndexByName(const aclmdlDesc* modelDesc, const char* name, size_t* index) {
    return index_of("aclmdlGetInputIndexByName", modelDesc, true, name, index);
}
aclError aclmdlGetOutputIndexByName(const aclmdlDesc* modelDesc, const char* name, size_t* index) {
    return index_of("aclmdlGetOutputIndexByName", modelDesc, false, name, index);
}

aclFormat aclmdlGetInputFormat(const aclmdlDesc* modelDesc, size_t index) {
    return type_at(modelDesc, true, index) ? ACL_FORMAT_ND : ACL_FORMAT_UNDEFINED;
}
aclFormat aclmdlGetOutputFormat(const aclmdlDesc* modelDesc, size_t index) {
    return type_at(modelDesc, false, index) ? ACL_FORMAT_ND : ACL_FORMAT_UNDEFINED;
}
aclDataType aclmdlGetInputDataType(const aclmdlDesc* modelDesc, size_t index) {
    const auto* type = type_at(modelDesc, true, index);
    return type ? type->dtype : ACL_DT_UNDEFINED;
}
aclDataType aclmdlGetOutputDataType(const aclmdlDesc* modelDesc, size_t index) {
    const auto* type = type_at(modelDesc, false, index);
    return type ? type->dtype : ACL_DT_UNDEFINED;
}
