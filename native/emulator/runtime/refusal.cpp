// Work that is refused before it is queued.
#include <pthread.h>

#include <string_view>

#include "graph.h"

namespace npu::emulator {
namespace {

class Refused final : public Task {
  public:
    Refused(aclError code, std::string sentence) : error_(code, std::move(sentence)) {}
    void run() override { throw error_; }
    const char* name() const override { return "a launch"; }

  private:
    TaskError error_;
};

}  // namespace

/// torch_npu calls the thread that empties its task queue so (NPUAffinityController.cpp, ACL_THREAD).
bool on_launch_thread() {
    char name[16] = {};
    return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
           std::string_view(name) == "acl_thread";
}

aclError refuse(aclrtStream stream, aclError code, std::string sentence) {
    if (!on_launch_thread()) {
        invalidate_capture(stream, sentence);
        return fail(code, std::move(sentence));
    }
    if (invalidate_capture(stream, sentence)) return ACL_SUCCESS;  // the end of the capture says it
    return launch(stream, std::make_unique<Refused>(code, std::move(sentence)));
}

}  // namespace npu::emulator
