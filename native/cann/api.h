// The functions of CANN that we call, each bound at its first call: api::aclrtMalloc(...).
// The one list of them.
#pragma once

#include "cann/acl.h"
#include "cann/aclnn_base.h"
#include "cann/hccl.h"
#include "cann/loader.h"

namespace npu::cann::api {

#define NPU_CANN_FUNCTION(part, name) \
    inline constinit Function<decltype(::name)> name { Part::part, #name }

// Devices, streams, events, memory.
NPU_CANN_FUNCTION(runtime, aclInit);
NPU_CANN_FUNCTION(runtime, aclFinalize);
NPU_CANN_FUNCTION(runtime, aclGetRecentErrMsg);
NPU_CANN_FUNCTION(runtime, aclrtGetSocName);
NPU_CANN_FUNCTION(runtime, aclrtGetDeviceCount);
NPU_CANN_FUNCTION(runtime, aclrtSetDevice);
NPU_CANN_FUNCTION(runtime, aclrtGetDevice);
NPU_CANN_FUNCTION(runtime, aclrtResetDevice);
NPU_CANN_FUNCTION(runtime, aclrtSynchronizeDevice);
NPU_CANN_FUNCTION(runtime, aclrtSynchronizeDeviceWithTimeout);
NPU_CANN_FUNCTION(runtime, aclrtGetMemInfo);
NPU_CANN_FUNCTION(runtime, aclrtDeviceCanAccessPeer);
NPU_CANN_FUNCTION(runtime, aclrtDeviceEnablePeerAccess);
NPU_CANN_FUNCTION(runtime, aclrtDeviceDisablePeerAccess);
NPU_CANN_FUNCTION(runtime, aclrtDeviceGetStreamPriorityRange);
NPU_CANN_FUNCTION(runtime, aclrtDeviceTaskAbort);
NPU_CANN_FUNCTION(runtime, aclrtCreateContext);
NPU_CANN_FUNCTION(runtime, aclrtDestroyContext);
NPU_CANN_FUNCTION(runtime, aclrtSetCurrentContext);
NPU_CANN_FUNCTION(runtime, aclrtGetCurrentContext);
NPU_CANN_FUNCTION(runtime, aclrtCreateStreamWithConfig);
NPU_CANN_FUNCTION(runtime, aclrtDestroyStream);
NPU_CANN_FUNCTION(runtime, aclrtDestroyStreamForce);
NPU_CANN_FUNCTION(runtime, aclrtSynchronizeStream);
NPU_CANN_FUNCTION(runtime, aclrtSynchronizeStreamWithTimeout);
NPU_CANN_FUNCTION(runtime, aclrtStreamQuery);
NPU_CANN_FUNCTION(runtime, aclrtStreamWaitEvent);
NPU_CANN_FUNCTION(runtime, aclrtStreamAbort);
NPU_CANN_FUNCTION(runtime, aclrtStreamGetId);
NPU_CANN_FUNCTION(runtime, aclrtLaunchHostFunc);
NPU_CANN_FUNCTION(runtime, aclrtCreateEventExWithFlag);
NPU_CANN_FUNCTION(runtime, aclrtDestroyEvent);
NPU_CANN_FUNCTION(runtime, aclrtRecordEvent);
NPU_CANN_FUNCTION(runtime, aclrtQueryEventStatus);
NPU_CANN_FUNCTION(runtime, aclrtSynchronizeEvent);
NPU_CANN_FUNCTION(runtime, aclrtSynchronizeEventWithTimeout);
NPU_CANN_FUNCTION(runtime, aclrtEventElapsedTime);
NPU_CANN_FUNCTION(runtime, aclrtMalloc);
NPU_CANN_FUNCTION(runtime, aclrtFree);
NPU_CANN_FUNCTION(runtime, aclrtMallocHost);
NPU_CANN_FUNCTION(runtime, aclrtFreeHost);
NPU_CANN_FUNCTION(runtime, aclrtMemcpy);
NPU_CANN_FUNCTION(runtime, aclrtMemcpyAsync);
NPU_CANN_FUNCTION(runtime, aclrtMemset);
NPU_CANN_FUNCTION(runtime, aclrtMemsetAsync);

// Captured work.
NPU_CANN_FUNCTION(runtime, aclmdlRICaptureBegin);
NPU_CANN_FUNCTION(runtime, aclmdlRICaptureEnd);
NPU_CANN_FUNCTION(runtime, aclmdlRIExecuteAsync);
NPU_CANN_FUNCTION(runtime, aclmdlRIDestroy);

// Compiled models.
NPU_CANN_FUNCTION(runtime, aclmdlLoadFromMem);
NPU_CANN_FUNCTION(runtime, aclmdlLoadFromMemWithMem);
NPU_CANN_FUNCTION(runtime, aclmdlQuerySizeFromMem);
NPU_CANN_FUNCTION(runtime, aclmdlUnload);
NPU_CANN_FUNCTION(runtime, aclmdlExecute);
NPU_CANN_FUNCTION(runtime, aclmdlExecuteAsync);
NPU_CANN_FUNCTION(runtime, aclmdlCreateDesc);
NPU_CANN_FUNCTION(runtime, aclmdlDestroyDesc);
NPU_CANN_FUNCTION(runtime, aclmdlGetDesc);
NPU_CANN_FUNCTION(runtime, aclmdlGetNumInputs);
NPU_CANN_FUNCTION(runtime, aclmdlGetNumOutputs);
NPU_CANN_FUNCTION(runtime, aclmdlGetInputSizeByIndex);
NPU_CANN_FUNCTION(runtime, aclmdlGetOutputSizeByIndex);
NPU_CANN_FUNCTION(runtime, aclmdlGetInputDims);
NPU_CANN_FUNCTION(runtime, aclmdlGetOutputDims);
NPU_CANN_FUNCTION(runtime, aclmdlGetInputNameByIndex);
NPU_CANN_FUNCTION(runtime, aclmdlGetOutputNameByIndex);
NPU_CANN_FUNCTION(runtime, aclmdlGetInputDataType);
NPU_CANN_FUNCTION(runtime, aclmdlGetOutputDataType);
NPU_CANN_FUNCTION(runtime, aclmdlCreateDataset);
NPU_CANN_FUNCTION(runtime, aclmdlDestroyDataset);
NPU_CANN_FUNCTION(runtime, aclmdlAddDatasetBuffer);
NPU_CANN_FUNCTION(runtime, aclmdlSetDatasetTensorDesc);
NPU_CANN_FUNCTION(runtime, aclmdlGetDatasetTensorDesc);
NPU_CANN_FUNCTION(runtime, aclCreateDataBuffer);
NPU_CANN_FUNCTION(runtime, aclDestroyDataBuffer);
NPU_CANN_FUNCTION(runtime, aclCreateTensorDesc);
NPU_CANN_FUNCTION(runtime, aclDestroyTensorDesc);
NPU_CANN_FUNCTION(runtime, aclGetTensorDescNumDims);
NPU_CANN_FUNCTION(runtime, aclGetTensorDescDimV2);

// Collectives.
NPU_CANN_FUNCTION(hccl, HcclGetRootInfo);
NPU_CANN_FUNCTION(hccl, HcclCommInitRootInfo);
NPU_CANN_FUNCTION(hccl, HcclCommInitRootInfoConfig);
NPU_CANN_FUNCTION(hccl, HcclCommInitAll);
NPU_CANN_FUNCTION(hccl, HcclCreateSubCommConfig);
NPU_CANN_FUNCTION(hccl, HcclCommDestroy);
NPU_CANN_FUNCTION(hccl, HcclGetRankSize);
NPU_CANN_FUNCTION(hccl, HcclGetRankId);
NPU_CANN_FUNCTION(hccl, HcclGetCommName);
NPU_CANN_FUNCTION(hccl, HcclGetCommAsyncError);
NPU_CANN_FUNCTION(hccl, HcclAllReduce);
NPU_CANN_FUNCTION(hccl, HcclBroadcast);
NPU_CANN_FUNCTION(hccl, HcclReduce);
NPU_CANN_FUNCTION(hccl, HcclReduceScatter);
NPU_CANN_FUNCTION(hccl, HcclReduceScatterV);
NPU_CANN_FUNCTION(hccl, HcclScatter);
NPU_CANN_FUNCTION(hccl, HcclAllGather);
NPU_CANN_FUNCTION(hccl, HcclAllGatherV);
NPU_CANN_FUNCTION(hccl, HcclAlltoAll);
NPU_CANN_FUNCTION(hccl, HcclAlltoAllV);
NPU_CANN_FUNCTION(hccl, HcclSend);
NPU_CANN_FUNCTION(hccl, HcclRecv);
NPU_CANN_FUNCTION(hccl, HcclBatchSendRecv);
NPU_CANN_FUNCTION(hccl, HcclBarrier);

// The arguments of aclnn's operators; the operators themselves are found by name (op_executor.h).
NPU_CANN_FUNCTION(aclnn, aclCreateTensor);
NPU_CANN_FUNCTION(aclnn, aclCreateScalar);
NPU_CANN_FUNCTION(aclnn, aclCreateIntArray);
NPU_CANN_FUNCTION(aclnn, aclCreateFloatArray);
NPU_CANN_FUNCTION(aclnn, aclCreateBoolArray);
NPU_CANN_FUNCTION(aclnn, aclCreateTensorList);
NPU_CANN_FUNCTION(aclnn, aclCreateScalarList);
NPU_CANN_FUNCTION(aclnn, aclDestroyTensor);
NPU_CANN_FUNCTION(aclnn, aclDestroyScalar);
NPU_CANN_FUNCTION(aclnn, aclDestroyIntArray);
NPU_CANN_FUNCTION(aclnn, aclDestroyFloatArray);
NPU_CANN_FUNCTION(aclnn, aclDestroyBoolArray);
NPU_CANN_FUNCTION(aclnn, aclDestroyTensorList);
NPU_CANN_FUNCTION(aclnn, aclDestroyScalarList);

#undef NPU_CANN_FUNCTION

/// Calls a function of ACL, HCCL or aclnn and throws Error unless it answers 0. `doing`: text, or a function
/// that makes it.
template <typename R, typename... P, typename Doing, typename... A>
    requires std::same_as<R, HcclResult> || std::integral<R>
void call(Function<R(P...)>& function, const Doing& doing, A... arguments) {
    constexpr Family family = std::same_as<R, HcclResult> ? Family::hccl : Family::acl;
    check(family, static_cast<int64_t>(function(arguments...)), function.name(), doing);
}

}  // namespace npu::cann::api
