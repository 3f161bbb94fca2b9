// The door through which the emulator's other libraries (opapi, aclop, hccl, ge) put work on a stream.
// Exported by libascendcl.so; C++ and private to the emulator, not part of CANN's ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "cann/acl.h"

#pragma GCC visibility push(default)
namespace npu::emulator {

/// One unit of stream-ordered work. The runtime owns it from launch() until it ran or was dropped; where the
/// stream is being captured, a graph owns it for as long as it may be replayed.
class Task {
  public:
    virtual ~Task() = default;

    /// Does the work, on an engine's thread (or the caller's, see work()). What it throws becomes the
    /// device's sticky error: the tasks after it are dropped and every synchronise or copy-out fails until
    /// aclrtResetDevice.
    /// Repeatable: a captured task runs once per replay, on any thread, never twice at a time. So it leaves
    /// its own arguments as they were, reads what the device computes when it runs, and holds what it needs
    /// (handles, staged copies); device memory is the caller's to keep. A task that takes a place in some
    /// order when it is launched (a collective among its peers' calls) is launched by launch_made().
    virtual void run() = 0;

    /// What error messages call it: "aclnnAdd". Must outlive the task.
    virtual const char* name() const = 0;

    /// Bytes touched, a hint: a tiny task on an idle stream may run on the caller's thread within launch().
    virtual std::size_t work() const { return SIZE_MAX; }
};

/// Thrown by Task::run() to choose the sticky error's code (any other exception:
/// ACL_ERROR_RT_AICORE_EXCEPTION).
class TaskError : public std::runtime_error {
  public:
    TaskError(aclError code, const std::string& sentence) : std::runtime_error(sentence), code(code) {}
    aclError code;
};

/// Who runs a task. Compute is one thread per process, which owns the cores (the only OpenMP team); copies
/// and host work (callbacks, waiting for a peer) have threads of their own and never hold up compute.
enum class Engine { compute, copy, host };

/// Appends the task to the stream (nullptr: the current context's default stream) and returns at once.
/// Thread-safe. A non-zero code means that the task was not taken, with the reason in aclGetRecentErrMsg.
aclError launch(aclrtStream stream, std::unique_ptr<Task> task, Engine engine = Engine::compute);

using MakeTask = std::function<std::unique_ptr<Task>()>;

/// launch() of a task that is good for one launch only: `make` is called now, or, where the stream is being
/// captured, for each replay when that is put on its stream. `name` as Task::name().
aclError launch_made(aclrtStream stream, const char* name, MakeTask make, Engine engine);

/// Fails if this process cannot use the emulator: misconfigured, or forked from a process that used a device.
aclError usable(const char* function);

/// True on the compute engine's own thread; false where a tiny task runs on its caller's thread.
bool on_compute_engine();

/// Stores the sentence as the calling thread's aclGetRecentErrMsg and returns the code.
aclError fail(aclError code, std::string sentence);

/// True on the thread of a framework's launch queue (torch_npu's). Such a queue does not survive an error: it
/// tells its user once, then drops what it is handed in silence, and may leave the user waiting for ever.
bool on_launch_thread();

/// fail() for work that cannot be done. On a launch thread the stream gets work that fails instead, with that
/// code and sentence, and the user learns of it as of any operator that failed on the device.
aclError refuse(aclrtStream stream, aclError code, std::string sentence);

/// Stores the sentence as it is, for libraries whose codes are not ACL's.
void set_recent_sentence(std::string sentence);

/// The calling thread's last sentence, which stays for aclGetRecentErrMsg; "" if there is none.
const char* recent_sentence();

/// The error of a function that the emulator does not have: ACL_ERROR_API_NOT_SUPPORT, naming the function
/// and the way out. Not ACL_ERROR_RT_FEATURE_NOT_SUPPORT: torch_npu's NPU_CHECK_ERROR warns once at that code
/// and goes on.
aclError unsupported(const char* name, const char* advice = "Use a machine with CANN for it.");

}  // namespace npu::emulator
#pragma GCC visibility pop
