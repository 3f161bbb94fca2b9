#include "pjrt/callbacks.h"

#include <atomic>
#include <mutex>

#include "pjrt/status.h"

struct NpuPjrtReply {
    bool given = false;
    int code = 0;
    std::string bytes;
};

namespace npu::pjrt {
namespace {

std::atomic<NpuPjrtCompiler> compiler{nullptr};
std::atomic<NpuPjrtHostCall> host_call{nullptr};

std::atomic<NpuPjrtLockHeld> lock_held{nullptr};
std::atomic<NpuPjrtLockRelease> release_lock{nullptr};
std::atomic<NpuPjrtLockTake> take_lock{nullptr};

thread_local bool in_host_call = false;

// Sets the mark of this thread for the length of a call.
class HostCallMark {
  public:
    HostCallMark() { in_host_call = true; }
    ~HostCallMark() { in_host_call = false; }
    HostCallMark(const HostCallMark&) = delete;
    HostCallMark& operator=(const HostCallMark&) = delete;
};

std::mutex versions_mutex;
StableHloVersions versions;

// What a callback answered. Python's callbacks answer nothing when they end by an exception.
std::string take(NpuPjrtReply& reply, const std::string& who) {
    if (!reply.given) throw Status(PJRT_Error_Code_INTERNAL, who + " ended without an answer");
    if (reply.code != PJRT_Error_Code_OK) throw Status(reply.code, reply.bytes);
    return std::move(reply.bytes);
}

}  // namespace

std::string compile(std::string_view artefact, std::string_view options) {
    const NpuPjrtCompiler function = compiler;
    if (function == nullptr)
        throw precondition(
            "the npu plugin has no compiler yet: import xla_npu (JAX does it by itself where the package is "
            "installed), which hands it over");
    NpuPjrtReply reply;
    function(artefact.data(), artefact.size(), options.data(), options.size(), &reply);
    return take(reply, "the compiler");
}

void call_host(const std::string& target, std::string_view attributes,
               const std::vector<NpuHostArray>& inputs, std::vector<NpuHostArray>& outputs) {
    const NpuPjrtHostCall function = host_call;
    if (function == nullptr)
        throw precondition("the program calls " + target +
                           " on the host, and nobody has told the npu plugin how: import xla_npu");
    NpuPjrtReply reply;
    const HostCallMark mark;
    function(target.c_str(), attributes.data(), attributes.size(), static_cast<int>(inputs.size()),
             inputs.data(), static_cast<int>(outputs.size()), outputs.data(), &reply);
    take(reply, "the host call " + target);
}

void outside_host_call() {
    if (in_host_call)
        throw precondition(
            "a Python callback of a program on npu runs another program on npu, which would wait for the "
            "callback "
            "itself: compute with NumPy, or give callbacks a cpu device by JAX_PLATFORMS=npu,cpu");
}

CallerUnlocked::CallerUnlocked() {
    const NpuPjrtLockHeld held = lock_held;
    const NpuPjrtLockRelease release = release_lock;
    if (held != nullptr && release != nullptr && held() != 0) released_ = release();
}

CallerUnlocked::~CallerUnlocked() {
    const NpuPjrtLockTake take = take_lock;
    if (released_ != nullptr && take != nullptr) take(released_);
}

StableHloVersions stablehlo_versions() {
    std::lock_guard lock(versions_mutex);
    return versions;
}

}  // namespace npu::pjrt

void npu_pjrt_set_compiler(NpuPjrtCompiler function) { npu::pjrt::compiler = function; }

void npu_pjrt_set_host_call(NpuPjrtHostCall function) { npu::pjrt::host_call = function; }

void npu_pjrt_set_caller_lock(NpuPjrtLockHeld held, NpuPjrtLockRelease release, NpuPjrtLockTake take) {
    npu::pjrt::lock_held = held;
    npu::pjrt::release_lock = release;
    npu::pjrt::take_lock = take;
}

void npu_pjrt_reply(NpuPjrtReply* reply, int code, const void* bytes, size_t size) {
    if (reply == nullptr) return;
    try {
        reply->bytes.assign(static_cast<const char*>(bytes), bytes == nullptr ? 0 : size);
        reply->code = code;
        reply->given = true;
    } catch (const std::bad_alloc&) {  // no memory for the answer: it counts as none
        reply->given = false;
    }
}

void npu_pjrt_set_stablehlo_versions(const int64_t* current, const int64_t* minimum) {
    std::lock_guard lock(npu::pjrt::versions_mutex);
    npu::pjrt::versions = {{current, current + 3}, {minimum, minimum + 3}};
}
