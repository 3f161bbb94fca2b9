// DLPack's structures in our own words (dlpack.h 1.1): both forms of the exchange.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::bindings::dlpack {

constexpr int32_t kExtDev = 12;  ///< what torch calls PrivateUse1, and torch_npu therefore the NPU
constexpr uint64_t kReadOnly = 1;

struct Device {
    int32_t type, id;
};
struct DataType {
    uint8_t code, bits;
    uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    int32_t ndim;
    DataType dtype;
    int64_t* shape;
    int64_t* strides;  ///< in elements; null: contiguous
    uint64_t byte_offset;
};
struct Managed {
    Tensor tensor;
    void* context;
    void (*deleter)(Managed*);
};
struct Versioned {
    uint32_t major, minor;
    void* context;
    void (*deleter)(Versioned*);
    uint64_t flags;
    Tensor tensor;
};
static_assert(sizeof(Tensor) == 48 && sizeof(Managed) == 64 && sizeof(Versioned) == 80);

constexpr const char* name_of(const Managed*) { return "dltensor"; }
constexpr const char* name_of(const Versioned*) { return "dltensor_versioned"; }
constexpr const char* used_name_of(const Managed*) { return "used_dltensor"; }
constexpr const char* used_name_of(const Versioned*) { return "used_dltensor_versioned"; }

}  // namespace npu::bindings::dlpack
