// Work that is refused before it is queued.
#include <pthread.h>

#include <string_view>

#include "runtime.h"

namespace npu::emulator {
namespace {

/// torch_npu calls the thread that empties its task queue so (NPUAffinityController.cpp, ACL_THREAD).
bool on_launch_thread() {
    char name[16] = {};
    return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
           std::string_view(name) == "acl_thread";
}

/// At once, ahead of what is queued: the launch thread drops everything from now on, so a read that comes
/// before the queued work is done would see memory that is stale already.
void fail_device(aclrtStream stream, aclError code, const std::string& sentence) {
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Device* device = nullptr;
    if (stream != nullptr) {
        Stream* found = nullptr;
        if (runtime.find(stream, "a launch", &found) == ACL_SUCCESS) device = found->device;
    } else {
        Context* context = nullptr;
        if (runtime.need_context("a launch", &context) == ACL_SUCCESS) device = context->device;
    }
    if (device != nullptr)
        runtime.scheduler.set_error(*device, code, "a launch failed on the device: " + sentence);
}

}  // namespace

aclError refuse(aclrtStream stream, aclError code, std::string sentence) {
    if (on_launch_thread()) fail_device(stream, code, sentence);
    return fail(code, std::move(sentence));
}

}  // namespace npu::emulator
