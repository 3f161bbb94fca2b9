// Group calls: on one rank each call inside a group takes effect at once, so a group is only a balanced pair.
#include "communicator.h"

namespace npu::emulator::hccl {
namespace {
thread_local uint32_t depth = 0;
}

bool in_group() { return depth > 0; }

}  // namespace npu::emulator::hccl

using namespace npu::emulator::hccl;

HcclResult HcclGroupStart() {
    ++depth;
    return HCCL_SUCCESS;
}

HcclResult HcclGroupEnd() {
    if (depth == 0)
        return refuse(HCCL_E_PARA, "HcclGroupEnd: this thread is in no group; call HcclGroupStart first");
    --depth;
    return HCCL_SUCCESS;
}

HcclResult HcclGroupStatusGet(bool* isGroup) {
    if (isGroup == nullptr) return refuse(HCCL_E_PTR, "HcclGroupStatusGet: the output is null");
    *isGroup = in_group();
    return HCCL_SUCCESS;
}
