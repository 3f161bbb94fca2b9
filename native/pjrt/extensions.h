// The extensions of the C API that we have. Each function gives its own, linked in front of `next`.
#pragma once

#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

PJRT_Extension_Base* layouts_extension(PJRT_Extension_Base* next);
PJRT_Extension_Base* memory_descriptions_extension(PJRT_Extension_Base* next);
PJRT_Extension_Base* shardings_extension(PJRT_Extension_Base* next);
PJRT_Extension_Base* stream_extension(PJRT_Extension_Base* next);
PJRT_Extension_Base* raw_buffer_extension(PJRT_Extension_Base* next);
PJRT_Extension_Base* ffi_extension(PJRT_Extension_Base* next);
PJRT_Extension_Base* abi_version_extension(PJRT_Extension_Base* next);

}  // namespace npu::pjrt
