// Whether an executable can run here: it must have been compiled for the same SoC and CANN.
#include "cann/loader.h"
#include "cann/runtime.h"
#include "pjrt/abi.h"
#include "pjrt/executable.h"
#include "pjrt/extensions.h"
#include "pjrt/topology.h"
#include "pjrt/wire.h"

namespace npu::pjrt {

/// Of this process's runtime, or of an executable. Immutable.
class AbiVersion {
  public:
    AbiVersion(std::string soc, std::string cann) : soc_(std::move(soc)), cann_(std::move(cann)) {}
    static std::unique_ptr<AbiVersion> parse(std::string_view bytes);
    std::string serialise() const;
    /// Throws Status: why not.
    void check(const AbiVersion& executable) const {
        if (executable.soc_ != soc_ || executable.cann_ != cann_)
            throw precondition("compiled for " + executable.soc_ + " and CANN " + executable.cann_ +
                               ", here are " + soc_ + " and CANN " + cann_);
    }

  private:
    std::string soc_, cann_;
};

namespace {

// Message AbiVersion { 1 platform_id; 2 soc; 3 cann }
enum : uint32_t { kPlatform = 1, kSoc = 2, kCann = 3 };

uint64_t platform_id() { return fingerprint64(kPlatformName); }

}  // namespace

std::unique_ptr<AbiVersion> AbiVersion::parse(std::string_view bytes) {
    std::string soc, cann;
    uint64_t platform = 0;
    try {
        graph::Message message(as_bytes(bytes));
        for (graph::Field field; message.next(field);) {
            if (field.number == kPlatform) platform = static_cast<uint64_t>(field.integer());
            if (field.number == kSoc) soc = field.text();
            if (field.number == kCann) cann = field.text();
        }
    } catch (const graph::GraphError&) {
        platform = 0;
    }
    if (platform != platform_id()) throw invalid("these bytes are no version of the platform npu");
    return std::make_unique<AbiVersion>(graph::printable(soc), graph::printable(cann));
}

std::string AbiVersion::serialise() const {
    std::string out;
    put_integer(out, kPlatform, static_cast<int64_t>(platform_id()));
    put_bytes(out, kSoc, soc_);
    put_bytes(out, kCann, cann_);
    return out;
}

namespace {

void of_client(PJRT_Client_RuntimeAbiVersion_Args& args) {
    need(args.client, "client");
    args.abi_version = new AbiVersion(cann::soc_name(), cann::version());
}

void of_executable(PJRT_Executable_GetAbiVersion_Args& args) {
    const Program& program = *(*need(args.executable, "executable")).program();
    args.abi_version = new AbiVersion(program.soc, program.cann_version);
}

template <typename Args>
void destroy(Args& args) {
    delete args.abi_version;
}

template <typename Args>
void to_proto(Args& args) {
    auto bytes = std::make_unique<Bytes>(need(args.abi_version, "ABI version").serialise());
    args.serialized_proto = bytes->text.data();
    args.serialized_proto_size = bytes->text.size();
    args.serialized_proto_deleter = delete_bytes;
    args.serialized_proto_holder = bytes.release();
}

template <typename Args>
void from_proto(Args& args) {
    args.abi_version = AbiVersion::parse({args.serialized_proto, args.serialized_proto_size}).release();
}

template <typename Args>
void platform(Args& args) {
    need(args.abi_version, "ABI version");
    args.platform_id = platform_id();
}

void fits_runtime(PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args& args) {
    need(args.abi_version, "ABI version").check(need(args.other_abi_version, "other ABI version"));
}

void fits_executable(PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args& args) {
    need(args.abi_version, "ABI version")
        .check(need(args.executable_abi_version, "executable's ABI version"));
}

}  // namespace

PJRT_Extension_Base* abi_version_extension(PJRT_Extension_Base* next) {
    static PJRT_AbiVersion_Extension extension{};
    extension.base = {sizeof extension, PJRT_Extension_Type_AbiVersion, next};
    extension.client_runtime_abi_version = extension_slot<of_client>();
    extension.executable_get_abi_version = extension_slot<of_executable>();
    extension.runtime_abi_version_destroy = extension_slot<destroy<PJRT_RuntimeAbiVersion_Destroy_Args>>();
    extension.runtime_abi_version_is_compatible_with_runtime = extension_slot<fits_runtime>();
    extension.runtime_abi_version_is_compatible_with_executable = extension_slot<fits_executable>();
    extension.runtime_abi_version_to_proto = extension_slot<to_proto<PJRT_RuntimeAbiVersion_ToProto_Args>>();
    extension.runtime_abi_version_platform_id =
        extension_slot<platform<PJRT_RuntimeAbiVersion_PlatformId_Args>>();
    extension.executable_abi_version_destroy =
        extension_slot<destroy<PJRT_ExecutableAbiVersion_Destroy_Args>>();
    extension.executable_abi_version_to_proto =
        extension_slot<to_proto<PJRT_ExecutableAbiVersion_ToProto_Args>>();
    extension.executable_abi_version_platform_id =
        extension_slot<platform<PJRT_ExecutableAbiVersion_PlatformId_Args>>();
    extension.runtime_abi_version_from_proto =
        extension_slot<from_proto<PJRT_RuntimeAbiVersion_FromProto_Args>>();
    extension.executable_abi_version_from_proto =
        extension_slot<from_proto<PJRT_ExecutableAbiVersion_FromProto_Args>>();
    return &extension.base;
}

}  // namespace npu::pjrt
