// aclTensorDesc and aclDataBuffer: what a tensor looks like, and where it lies. Host objects only.
#include <algorithm>
#include <limits>

#include "aclop/handles.h"
#include "runtime/launch.h"

using npu::emulator::fail;

namespace {

aclError missing(const char* function, const char* argument) {
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(function) + ": " + argument + " is null; pass an address");
}

aclError assign_dims(const char* function, std::vector<int64_t>& to, int count, const int64_t* dims) {
    if (count < 0 || (count > 0 && dims == nullptr))
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": " + std::to_string(count) +
                                                 " dims at a null address, or a negative count");
    to.assign(dims, dims + count);
    return ACL_SUCCESS;
}

aclError assign_ranges(const char* function, std::vector<std::array<int64_t, 2>>& to, std::size_t count,
                       int64_t range[][2]) {
    if (count > 0 && range == nullptr) return missing(function, "the range");
    to.clear();
    for (std::size_t i = 0; i < count; ++i) to.push_back({range[i][0], range[i][1]});
    return ACL_SUCCESS;
}

aclError index_error(const char* function, std::size_t index, std::size_t count) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": dimension " + std::to_string(index) +
                                             " of a descriptor with " + std::to_string(count));
}

/// Elements; nullopt where a dimension is unknown (-1) or the whole rank is (-2).
std::optional<std::size_t> element_count(const aclTensorDesc& desc) {
    std::size_t count = 1;
    for (const int64_t dim : desc.dims) {
        if (dim < 0) return std::nullopt;
        if (dim != 0 && count > std::numeric_limits<std::size_t>::max() / static_cast<std::size_t>(dim))
            return std::nullopt;
        count *= static_cast<std::size_t>(dim);
    }
    return count;
}

}  // namespace

size_t aclDataTypeSize(aclDataType dataType) {
    switch (dataType) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL:
        case ACL_HIFLOAT8:
        case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E4M3FN:
        case ACL_FLOAT8_E8M0:
            return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16:
            return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32:
            return 4;
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_DOUBLE:
        case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        default:
            return 0;  // smaller than a byte (int4), of no fixed size (string), or unknown
    }
}

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
    aclTensorDesc desc;
    if (assign_dims("aclCreateTensorDesc", desc.dims, numDims, dims) != ACL_SUCCESS) return nullptr;
    desc.type = dataType;
    desc.format = format;
    return new aclTensorDesc(std::move(desc));
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }

aclError aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount, int64_t dimsRange[][2]) {
    if (desc == nullptr) return missing("aclSetTensorShapeRange", "the descriptor");
    return assign_ranges("aclSetTensorShapeRange", desc->shape_range, dimsCount, dimsRange);
}

aclError aclSetTensorValueRange(aclTensorDesc* desc, size_t valueCount, int64_t valueRange[][2]) {
    if (desc == nullptr) return missing("aclSetTensorValueRange", "the descriptor");
    return assign_ranges("aclSetTensorValueRange", desc->value_range, valueCount, valueRange);
}

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) { return desc ? desc->type : ACL_DT_UNDEFINED; }
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
    return desc ? desc->format : ACL_FORMAT_UNDEFINED;
}
size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
    return desc ? element_count(*desc).value_or(0) : 0;
}
size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
    return desc ? aclGetTensorDescElementCount(desc) * aclDataTypeSize(desc->type) : 0;
}
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
    if (desc == nullptr) return 0;
    // CANN: a tensor of unknown rank has the single dimension -2.
    if (!desc->dims.empty() && desc->dims.front() == -2) return ACL_UNKNOWN_RANK;
    return desc->dims.size();
}

int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index) {
    int64_t dim = -1;
    aclGetTensorDescDimV2(desc, index, &dim);
    return dim;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
    if (desc == nullptr) return missing("aclGetTensorDescDimV2", "the descriptor");
    if (dimSize == nullptr) return missing("aclGetTensorDescDimV2", "dimSize");
    if (index >= desc->dims.size()) return index_error("aclGetTensorDescDimV2", index, desc->dims.size());
    *dimSize = desc->dims[index];
    return ACL_SUCCESS;
}

aclError aclGetTensorDescDimRange(const aclTensorDesc* desc, size_t index, size_t dimRangeNum,
                                  int64_t* dimRange) {
    if (desc == nullptr) return missing("aclGetTensorDescDimRange", "the descriptor");
    if (dimRange == nullptr) return missing("aclGetTensorDescDimRange", "dimRange");
    if (dimRangeNum < 2)
        return fail(ACL_ERROR_INVALID_PARAM,
                    "aclGetTensorDescDimRange: a range takes 2 numbers, dimRangeNum is " +
                        std::to_string(dimRangeNum));
    if (index >= desc->shape_range.size())
        return index_error("aclGetTensorDescDimRange", index, desc->shape_range.size());
    std::ranges::copy(desc->shape_range[index], dimRange);
    return ACL_SUCCESS;
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
    if (desc != nullptr) desc->name = name ? name : "";
}
const char* aclGetTensorDescName(aclTensorDesc* desc) { return desc ? desc->name.c_str() : ""; }

aclError aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format) {
    return aclSetTensorFormat(desc, format);
}
aclError aclSetTensorStorageShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
    return aclSetTensorShape(desc, numDims, dims);
}
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
    if (desc == nullptr) return missing("aclSetTensorFormat", "the descriptor");
    desc->storage_format = format;
    return ACL_SUCCESS;
}
aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
    if (desc == nullptr) return missing("aclSetTensorShape", "the descriptor");
    return assign_dims("aclSetTensorShape", desc->storage_dims, numDims, dims);
}
aclError aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format) {
    if (desc == nullptr) return missing("aclSetTensorOriginFormat", "the descriptor");
    desc->format = format;
    return ACL_SUCCESS;
}
aclError aclSetTensorOriginShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
    if (desc == nullptr) return missing("aclSetTensorOriginShape", "the descriptor");
    return assign_dims("aclSetTensorOriginShape", desc->dims, numDims, dims);
}

aclError aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName) {
    if (desc == nullptr) return missing("aclSetTensorDynamicInput", "the descriptor");
    if (dynamicInputName == nullptr) return missing("aclSetTensorDynamicInput", "dynamicInputName");
    desc->dynamic_input = dynamicInputName;
    return ACL_SUCCESS;
}

aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length) {
    if (desc == nullptr) return missing("aclSetTensorConst", "the descriptor");
    if (dataBuffer == nullptr && length != 0) return missing("aclSetTensorConst", "dataBuffer");
    auto* bytes = static_cast<const std::byte*>(dataBuffer);
    desc->constant.emplace(bytes, bytes + length);
    return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
    if (desc == nullptr) return missing("aclSetTensorPlaceMent", "the descriptor");
    desc->placement = memType;
    return ACL_SUCCESS;
}

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) { return new aclDataBuffer{data, size}; }
aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
    if (dataBuffer == nullptr) return missing("aclDestroyDataBuffer", "the buffer");
    delete dataBuffer;
    return ACL_SUCCESS;
}
aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
    if (dataBuffer == nullptr) return missing("aclUpdateDataBuffer", "the buffer");
    *dataBuffer = {data, size};
    return ACL_SUCCESS;
}
void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
    return dataBuffer ? dataBuffer->data : nullptr;
}
uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
    return dataBuffer ? static_cast<uint32_t>(dataBuffer->size) : 0;  // CANN's deprecated 32-bit form
}
size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) { return dataBuffer ? dataBuffer->size : 0; }
