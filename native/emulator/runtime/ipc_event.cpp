// Events shared between processes (aclrtIpcGetEventHandle, aclrtIpcOpenEventHandle).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "ipc.h"
#include "runtime.h"

namespace npu::emulator {

struct SharedEvent::Page {
    std::atomic<uint64_t> recorded;
    std::atomic<uint64_t> reached;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

namespace {

constexpr std::size_t kPageBytes = 4096;

void* map_page(int fd) {
    void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? nullptr : page;
}

class WaitShared final : public Task {
  public:
    explicit WaitShared(std::shared_ptr<SharedEvent> event)
        : event_(std::move(event)), generation_(event_->recorded()) {}

    void run() override {
        // In slices, so that a process whose peer died can still end.
        while (!event_->wait(generation_, Clock::now() + std::chrono::milliseconds(200))) {
            if (given_up())
                throw TaskError(ACL_ERROR_RT_DEVICE_TASK_ABORT, "the runtime was stopped while it waited");
            if (alive(event_->file().pid)) continue;
            throw TaskError(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
                            "process " + std::to_string(event_->file().pid) +
                                ", whose event this stream waits for, has ended without reaching it");
        }
    }
    const char* name() const override { return "aclrtStreamWaitEvent"; }

  private:
    static bool given_up() {
        Lock lock(Runtime::get().scheduler.mutex);
        return Runtime::get().scheduler.stopping();
    }
    static bool alive(int32_t pid) { return access(("/proc/" + std::to_string(pid)).c_str(), F_OK) == 0; }

    std::shared_ptr<SharedEvent> event_;
    uint64_t generation_;
};

}  // namespace

SharedEvent::SharedEvent(SharedFile file, int fd, void* page)
    : file_(file), fd_(fd), page_(static_cast<Page*>(page)) {}

SharedEvent::~SharedEvent() {
    munmap(page_, kPageBytes);
    close(fd_);
}

uint64_t SharedEvent::record() { return page_->recorded.fetch_add(1) + 1; }

void SharedEvent::reach(uint64_t generation) {
    uint64_t seen = page_->reached.load();
    while (seen < generation && !page_->reached.compare_exchange_weak(seen, generation)) {
    }
}

uint64_t SharedEvent::recorded() const { return page_->recorded.load(); }

bool SharedEvent::complete() const {
    const uint64_t recorded = page_->recorded.load();
    return recorded > 0 && page_->reached.load() >= recorded;
}

bool SharedEvent::wait(uint64_t generation, Deadline deadline) const {
    auto pause = std::chrono::microseconds(20);
    while (page_->reached.load() < generation) {
        if (deadline && Clock::now() >= *deadline) return false;
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(500));
    }
    return true;
}

std::unique_ptr<Task> wait_task(std::shared_ptr<SharedEvent> event) {
    return std::make_unique<WaitShared>(std::move(event));
}

aclError share_event(aclrtEvent handle, const char* function) {
    const SharedFile file = create_shared(kPageBytes);
    void* page = file.fd < 0 ? nullptr : map_page(file.fd);
    if (page == nullptr) {
        if (file.fd >= 0) close(file.fd);
        return fail(ACL_ERROR_RT_NO_EVENT_RESOURCE,
                    std::string(function) + ": the host gave no shared memory: " + std::strerror(errno));
    }
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr event;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &event));
    event->shared = std::make_shared<SharedEvent>(file, file.fd, page);
    return ACL_SUCCESS;
}

}  // namespace npu::emulator

using namespace npu::emulator;

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
    constexpr const char* name = "aclrtIpcGetEventHandle";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(handle, name, "handle"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr found;
    NPU_RETURN_IF_ERROR(runtime.find(event, name, &found));
    if (!found->shared) {
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": the event cannot be shared; create it with ACL_EVENT_IPC");
    }
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle->reserved, &found->shared->file(), sizeof(SharedFile));
    return ACL_SUCCESS;
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event) {
    constexpr const char* name = "aclrtIpcOpenEventHandle";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(event, name, "event"));
    SharedFile file;
    std::memcpy(&file, handle.reserved, sizeof file);
    const int fd = open_shared(file);
    if (fd < 0) {
        return fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
                    std::string(name) + ": process " + std::to_string(file.pid) +
                        " does not hold that event any more; keep it alive until it was opened here");
    }
    void* page = map_page(fd);
    if (page == nullptr) {
        close(fd);
        return fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, std::string(name) + ": " + std::strerror(errno));
    }
    auto shared = std::make_shared<SharedEvent>(file, fd, page);
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context(name, &context));
    auto opened = std::make_shared<EventState>();
    opened->flags = ACL_EVENT_IPC;
    opened->id = runtime.next_id();
    opened->device = context->device;
    opened->shared = std::move(shared);
    *event = opened.get();
    runtime.events.emplace(opened.get(), std::move(opened));
    return ACL_SUCCESS;
}
