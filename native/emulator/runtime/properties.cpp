// What the emulated devices say about themselves.
#include <unistd.h>

#include <cstring>

#include "runtime.h"

using namespace npu::emulator;

namespace {

constexpr aclCannAttr kAttributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};

/// Checks an output pointer and a device number.
aclError check(const void* output, int32_t device, const char* function) {
    NPU_RETURN_IF_ERROR(usable(function));
    NPU_RETURN_IF_ERROR(require(output, function, "the output pointer"));
    Device* found = nullptr;
    return Runtime::get().find_device(device, function, &found);
}

const Soc& soc() { return *Runtime::get().config.soc; }

/// User, logical and physical numbers of a device are the same here.
aclError same_number(int32_t from, int32_t* to, const char* function) {
    NPU_RETURN_IF_ERROR(check(to, from, function));
    *to = from;
    return ACL_SUCCESS;
}

}  // namespace

/// nullptr if the emulator is configured with a SoC that it does not know (aclGetRecentErrMsg says which it
/// knows).
const char* aclrtGetSocName() {
    if (usable("aclrtGetSocName") != ACL_SUCCESS) return nullptr;
    return soc().name;
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
    NPU_RETURN_IF_ERROR(require(runMode, "aclrtGetRunMode", "runMode"));
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
    NPU_RETURN_IF_ERROR(require(cannAttrList, "aclGetCannAttributeList", "cannAttrList"));
    NPU_RETURN_IF_ERROR(require(num, "aclGetCannAttributeList", "num"));
    *cannAttrList = kAttributes;
    *num = std::size(kAttributes);
    return ACL_SUCCESS;
}

/// value: 1 for infinities and NaN (no saturation) and for bfloat16; 0 for compilation of operators at run
/// time.
aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
    NPU_RETURN_IF_ERROR(require(value, "aclGetCannAttribute", "value"));
    switch (cannAttr) {
        case ACL_CANN_ATTR_INF_NAN:
        case ACL_CANN_ATTR_BF16:
            *value = 1;
            return ACL_SUCCESS;
        case ACL_CANN_ATTR_JIT_COMPILE:
            *value = 0;
            return ACL_SUCCESS;
        default:
            return fail(ACL_ERROR_INVALID_PARAM, "aclGetCannAttribute: attribute " +
                                                     std::to_string(static_cast<int>(cannAttr)) +
                                                     " is not CANN's");
    }
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
    NPU_RETURN_IF_ERROR(check(value, static_cast<int32_t>(deviceId), "aclGetDeviceCapability"));
    switch (deviceInfo) {
        case ACL_DEVICE_INFO_AI_CORE_NUM:
            *value = soc().cube_cores;
            return ACL_SUCCESS;
        case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
            *value = soc().vector_cores;
            return ACL_SUCCESS;
        case ACL_DEVICE_INFO_L2_SIZE:
            *value = soc().l2_bytes;
            return ACL_SUCCESS;
        default:
            return fail(ACL_ERROR_INVALID_PARAM, "aclGetDeviceCapability: item " +
                                                     std::to_string(static_cast<int>(deviceInfo)) +
                                                     " is not CANN's");
    }
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
    NPU_RETURN_IF_ERROR(check(value, static_cast<int32_t>(deviceId), "aclrtGetDeviceInfo"));
    switch (attr) {
        case ACL_DEV_ATTR_AICPU_CORE_NUM:
            *value = soc().ai_cpus;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_AICORE_CORE_NUM:
        case ACL_DEV_ATTR_CUBE_CORE_NUM:
            *value = soc().cube_cores;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_VECTOR_CORE_NUM:
            *value = soc().vector_cores;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
            *value = static_cast<int64_t>(Runtime::get().config.device_memory);
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_L2_CACHE_SIZE:
            *value = soc().l2_bytes;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_PHY_CHIP_ID:
            *value = deviceId;
            return ACL_SUCCESS;
        case ACL_DEV_ATTR_IS_VIRTUAL:
            *value = 0;
            return ACL_SUCCESS;
        default:
            return unsupported(("aclrtGetDeviceInfo for attribute " + std::to_string(attr)).c_str());
    }
}

/// A fixed pattern with the device's number in its last byte: the same in every process.
aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
    NPU_RETURN_IF_ERROR(check(uuid, deviceId, "aclrtDeviceGetUuid"));
    std::memcpy(uuid->bytes, "npu-emulator-dev", sizeof uuid->bytes);
    uuid->bytes[sizeof uuid->bytes - 1] = static_cast<char>(deviceId);
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
    NPU_RETURN_IF_ERROR(require(pid, "aclrtDeviceGetBareTgid", "pid"));
    *pid = getpid();
    return ACL_SUCCESS;
}

/// Every emulated device reaches the memory of every other.
aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
    NPU_RETURN_IF_ERROR(check(canAccessPeer, deviceId, "aclrtDeviceCanAccessPeer"));
    NPU_RETURN_IF_ERROR(check(canAccessPeer, peerDeviceId, "aclrtDeviceCanAccessPeer"));
    *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
    return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
    NPU_RETURN_IF_ERROR(check(&flags, peerDeviceId, "aclrtDeviceEnablePeerAccess"));
    if (flags == 0) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtDeviceEnablePeerAccess: flags have to be 0");
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
    return check(&peerDeviceId, peerDeviceId, "aclrtDeviceDisablePeerAccess");
}

aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t* status) {
    NPU_RETURN_IF_ERROR(check(status, deviceId, "aclrtDevicePeerAccessStatus"));
    NPU_RETURN_IF_ERROR(check(status, peerDeviceId, "aclrtDevicePeerAccessStatus"));
    *status = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* const logicDevId) {
    return same_number(userDevid, logicDevId, "aclrtGetLogicDevIdByUserDevId");
}

aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t* const phyDevId) {
    return same_number(logicDevId, phyDevId, "aclrtGetPhyDevIdByLogicDevId");
}

aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t* const logicDevId) {
    return same_number(phyDevId, logicDevId, "aclrtGetLogicDevIdByPhyDevId");
}

aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t* const phyDevId) {
    return same_number(userDevId, phyDevId, "aclrtGetPhyDevIdByUserDevId");
}

aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t* const userDevId) {
    return same_number(phyDevId, userDevId, "aclrtGetUserDevIdByPhyDevId");
}

/// The emulator computes infinities and NaN; it cannot saturate.
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
    NPU_RETURN_IF_ERROR(usable("aclrtSetDeviceSatMode"));
    if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) return ACL_SUCCESS;
    return unsupported("aclrtSetDeviceSatMode with another mode than ACL_RT_OVERFLOW_MODE_INFNAN",
                       "Unset INF_NAN_MODE_FORCE_DISABLE.");
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
    NPU_RETURN_IF_ERROR(require(mode, "aclrtGetDeviceSatMode", "mode"));
    *mode = ACL_RT_OVERFLOW_MODE_INFNAN;
    return ACL_SUCCESS;
}

/// The cores that operators may use: all of the SoC's.
aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
    NPU_RETURN_IF_ERROR(check(value, deviceId, "aclrtGetDeviceResLimit"));
    if (type != ACL_RT_DEV_RES_CUBE_CORE && type != ACL_RT_DEV_RES_VECTOR_CORE)
        return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceResLimit: the type is not one of CANN's");
    *value = static_cast<uint32_t>(type == ACL_RT_DEV_RES_CUBE_CORE ? soc().cube_cores : soc().vector_cores);
    return ACL_SUCCESS;
}

/// Emulated memory has no uncorrectable errors to report.
aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo*, size_t, size_t* retSize) {
    NPU_RETURN_IF_ERROR(check(retSize, deviceId, "aclrtGetMemUceInfo"));
    *retSize = 0;
    return ACL_SUCCESS;
}
