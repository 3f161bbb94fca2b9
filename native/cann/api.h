// The functions of CANN that we call, each bound at its first call: api::aclrtMalloc(...). The one list of
// them.
#pragma once

#include "cann/acl.h"
#include "cann/aclnn_base.h"
#include "cann/hccl.h"
#include "cann/loader.h"

namespace npu::cann::api {

#define NPU_CANN_RUNTIME(F)                                                                                 \
    F(aclInit)                                                                                              \
    F(aclFinalize)                                                                                          \
    F(aclGetRecentErrMsg) F(aclrtGetSocName) F(aclrtGetDeviceCount) F(aclrtSetDevice) F(aclrtGetDevice) F(  \
        aclrtResetDevice) F(aclrtSynchronizeDevice) F(aclrtSynchronizeDeviceWithTimeout) F(aclrtGetMemInfo) \
        F(aclrtDeviceCanAccessPeer) F(aclrtDeviceEnablePeerAccess) F(aclrtDeviceDisablePeerAccess)          \
            F(aclrtDeviceGetStreamPriorityRange) F(aclrtDeviceTaskAbort) F(aclrtCreateContext)              \
                F(aclrtDestroyContext) F(aclrtSetCurrentContext) F(aclrtGetCurrentContext)                  \
                    F(aclrtCreateStreamWithConfig) F(aclrtDestroyStream) F(aclrtDestroyStreamForce)         \
                        F(aclrtSynchronizeStream) F(aclrtSynchronizeStreamWithTimeout) F(aclrtStreamQuery)  \
                            F(aclrtStreamWaitEvent) F(aclrtStreamAbort) F(aclrtStreamGetId)                 \
                                F(aclrtLaunchHostFunc) F(aclrtCreateEventExWithFlag) F(aclrtDestroyEvent)   \
                                    F(aclrtRecordEvent) F(aclrtQueryEventStatus) F(aclrtSynchronizeEvent)   \
                                        F(aclrtSynchronizeEventWithTimeout) F(aclrtEventElapsedTime)        \
                                            F(aclrtMalloc) F(aclrtFree) F(aclrtMallocHost) F(aclrtFreeHost) \
                                                F(aclrtMemcpy) F(aclrtMemcpyAsync) F(aclrtMemset)           \
                                                    F(aclrtMemsetAsync)

#define NPU_CANN_MODELS(F)                                                                                \
    F(aclmdlLoadFromMem)                                                                                  \
    F(aclmdlLoadFromMemWithMem)                                                                           \
    F(aclmdlQuerySizeFromMem) F(aclmdlUnload) F(aclmdlExecute) F(aclmdlExecuteAsync) F(aclmdlCreateDesc)  \
        F(aclmdlDestroyDesc) F(aclmdlGetDesc) F(aclmdlGetNumInputs) F(aclmdlGetNumOutputs)                \
            F(aclmdlGetInputSizeByIndex) F(aclmdlGetOutputSizeByIndex) F(aclmdlGetInputDims)              \
                F(aclmdlGetOutputDims) F(aclmdlGetInputNameByIndex) F(aclmdlGetOutputNameByIndex)         \
                    F(aclmdlGetInputDataType) F(aclmdlGetOutputDataType) F(aclmdlCreateDataset)           \
                        F(aclmdlDestroyDataset) F(aclmdlAddDatasetBuffer) F(aclmdlSetDatasetTensorDesc)   \
                            F(aclmdlGetDatasetTensorDesc) F(aclCreateDataBuffer) F(aclDestroyDataBuffer)  \
                                F(aclCreateTensorDesc) F(aclDestroyTensorDesc) F(aclGetTensorDescNumDims) \
                                    F(aclGetTensorDescDimV2)

#define NPU_CANN_HCCL(F)                                                                                    \
    F(HcclGetRootInfo)                                                                                      \
    F(HcclCommInitRootInfo)                                                                                 \
    F(HcclCommInitRootInfoConfig) F(HcclCommInitAll) F(HcclCreateSubCommConfig) F(HcclCommDestroy)          \
        F(HcclGetRankSize) F(HcclGetRankId) F(HcclGetCommName) F(HcclGetCommAsyncError) F(HcclAllReduce)    \
            F(HcclBroadcast) F(HcclReduce) F(HcclReduceScatter) F(HcclReduceScatterV) F(HcclScatter)        \
                F(HcclAllGather) F(HcclAllGatherV) F(HcclAlltoAll) F(HcclAlltoAllV) F(HcclSend) F(HcclRecv) \
                    F(HcclBatchSendRecv) F(HcclBarrier)

#define NPU_CANN_ACLNN(F)                                                                    \
    F(aclCreateTensor)                                                                       \
    F(aclCreateScalar)                                                                       \
    F(aclCreateIntArray) F(aclCreateFloatArray) F(aclCreateBoolArray) F(aclCreateTensorList) \
        F(aclCreateScalarList) F(aclDestroyTensor) F(aclDestroyScalar) F(aclDestroyIntArray) \
            F(aclDestroyFloatArray) F(aclDestroyBoolArray) F(aclDestroyTensorList) F(aclDestroyScalarList)

#define NPU_CANN_DECLARE_RUNTIME(name) inline constinit Function<decltype(::name)> name{Part::runtime, #name};
#define NPU_CANN_DECLARE_HCCL(name) inline constinit Function<decltype(::name)> name{Part::hccl, #name};
#define NPU_CANN_DECLARE_ACLNN(name) inline constinit Function<decltype(::name)> name{Part::aclnn, #name};

NPU_CANN_RUNTIME(NPU_CANN_DECLARE_RUNTIME)
NPU_CANN_MODELS(NPU_CANN_DECLARE_RUNTIME)
NPU_CANN_HCCL(NPU_CANN_DECLARE_HCCL)
NPU_CANN_ACLNN(NPU_CANN_DECLARE_ACLNN)

#undef NPU_CANN_DECLARE_RUNTIME
#undef NPU_CANN_DECLARE_HCCL
#undef NPU_CANN_DECLARE_ACLNN

/// Calls a function of ACL, HCCL or aclnn and throws Error unless it answers 0. `doing`: text, or a function
/// that makes it.
template <typename R, typename... P, typename Doing, typename... A>
    requires std::same_as<R, HcclResult> || std::integral<R>
void call(Function<R(P...)>& function, const Doing& doing, A... arguments) {
    constexpr Family family = std::same_as<R, HcclResult> ? Family::hccl : Family::acl;
    check(family, static_cast<int64_t>(function(arguments...)), function.name(), doing);
}

}  // namespace npu::cann::api
