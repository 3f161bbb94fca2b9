// Which CANN the emulator answers for; version.info in the toolkit folder says the same.
#include <cstdio>
#include <cstring>
#include <string_view>

#include "error.h"

using namespace npu::emulator;

namespace {

/// "9.0.0" in its parts. A driver has a numbering of its own.
struct Version {
    const char* text;
    const char* major;
    const char* minor;
    const char* release;
};
constexpr Version kCann{NPU_CANN_VERSION, NPU_CANN_MAJOR, NPU_CANN_MINOR, NPU_CANN_PATCH};
constexpr Version kDriver{"26.0.0", "26", "0", "0"};

constexpr std::string_view kPackages[] = {
    "acl_extend",       "asc-devkit", "asc-tools", "bisheng-compiler", "ge-compiler", "ge-executor",
    "graph_autofusion", "hccl",       "hcomm",     "metadef",          "opbase",      "ops_cv",
    "ops_legacy",       "ops_math",   "ops_nn",    "ops_transformer",  "runtime",
};

}  // namespace

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
    NPU_RETURN_IF_ERROR(require(majorVersion, "aclrtGetVersion", "majorVersion"));
    NPU_RETURN_IF_ERROR(require(minorVersion, "aclrtGetVersion", "minorVersion"));
    NPU_RETURN_IF_ERROR(require(patchVersion, "aclrtGetVersion", "patchVersion"));
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
    NPU_RETURN_IF_ERROR(require(version, "aclsysGetCANNVersion", "version"));
    if (name > ACL_PKG_NAME_DRIVER) {
        return fail(ACL_ERROR_INVALID_PARAM, "aclsysGetCANNVersion: package " + std::to_string(name) +
                                                 " is not one of aclCANNPackageName");
    }
    const Version& answer = name == ACL_PKG_NAME_DRIVER ? kDriver : kCann;
    *version = {};
    std::snprintf(version->version, sizeof version->version, "%s", answer.text);
    std::snprintf(version->majorVersion, sizeof version->majorVersion, "%s", answer.major);
    std::snprintf(version->minorVersion, sizeof version->minorVersion, "%s", answer.minor);
    std::snprintf(version->releaseVersion, sizeof version->releaseVersion, "%s", answer.release);
    return ACL_SUCCESS;
}

/// versionStr: ACL_PKG_VERSION_MAX_SIZE bytes.
aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
    NPU_RETURN_IF_ERROR(require(pkgName, "aclsysGetVersionStr", "pkgName"));
    NPU_RETURN_IF_ERROR(require(versionStr, "aclsysGetVersionStr", "versionStr"));
    for (std::string_view package : kPackages) {
        if (package != pkgName) continue;
        std::snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%s", kCann.text);
        return ACL_SUCCESS;
    }
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string("aclsysGetVersionStr: the emulated toolkit has no package ") + pkgName);
}
