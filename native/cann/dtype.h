// The element types that arrays of ours can have, and what each is called by ACL, HCCL, DLPack and NumPy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cann/acl.h"
#include "cann/hccl.h"

namespace npu::cann {

struct DType {
    aclDataType acl;
    const char* name;   ///< NumPy's, or ml_dtypes'
    std::size_t size;   ///< bytes
    uint8_t dlpack;     ///< DLDataTypeCode; the bits are 8 * size
    HcclDataType hccl;  ///< HCCL_DATA_TYPE_RESERVED: HCCL does not carry it
};

/// All of them. Types of less than a byte are not among them: an array's elements have addresses.
std::span<const DType> dtypes();

const DType* find_dtype(aclDataType type);
const DType* find_dtype_of_dlpack(uint8_t code, uint8_t bits);

}  // namespace npu::cann
