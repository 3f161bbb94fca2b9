#include "runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>

#include "graph.h"

namespace npu::emulator {

namespace {

thread_local Context* current = nullptr;

/// In the child of a fork there are no engine threads, and the locks may be held by threads that do not
/// exist.
void after_fork_in_child() {
    Runtime& runtime = Runtime::get();
    if (runtime.used.load()) runtime.lost_in_fork.store(true);
}

/// Registered at the first use of a device, so it runs before the static destructors of what was loaded until
/// then (ATen's): no engine may run an operator while these do.
void at_process_exit() {
    Runtime& runtime = Runtime::get();
    if (runtime.lost_in_fork.load()) return;
    runtime.exiting.store(true);
    runtime.scheduler.stop();
}

}  // namespace

Runtime& Runtime::get() {
    static Runtime* runtime = new Runtime;
    return *runtime;
}

Runtime::Runtime() : config(read_config()) {
    for (uint32_t i = 0; i < config.devices; ++i) {
        devices.push_back(std::make_unique<Device>());
        devices.back()->index = static_cast<int32_t>(i);
    }
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

Stream* Runtime::new_stream(Device& device, uint32_t priority, uint32_t flags) {
    auto stream = std::make_unique<Stream>();
    stream->device = &device;
    stream->id = static_cast<int32_t>(next_id());
    stream->priority = priority;
    stream->flags = flags;
    device.streams.push_back(stream.get());
    streams.insert(stream.get());
    return stream.release();
}

Stream* Runtime::hidden_stream(Device& device) {
    Stream* stream = new_stream(device, 0, 0);
    streams.erase(stream);
    return stream;
}

Context* Runtime::new_context(Device& device) {
    auto context = std::make_unique<Context>();
    context->device = &device;
    context->default_stream = new_stream(device, 0, 0);
    contexts.insert(context.get());
    return context.release();
}

Context* Runtime::primary_context(Device& device) {
    if (device.primary == nullptr) {
        device.primary = new_context(device);
        device.primary->primary = true;
    }
    device.active = true;
    return device.primary;
}

Context* Runtime::current_context() {
    if (Context* own = thread_context()) return own;
    if (default_device < 0) return nullptr;
    return primary_context(*devices[static_cast<std::size_t>(default_device)]);
}

Context* Runtime::thread_context() const { return contexts.contains(current) ? current : nullptr; }

void Runtime::set_current(Context* context) { current = context; }

aclError Runtime::find(aclrtStream handle, const char* function, Stream** stream) {
    if (handle == nullptr) {
        Context* context = nullptr;
        NPU_RETURN_IF_ERROR(need_context(function, &context));
        *stream = context->default_stream;
        return ACL_SUCCESS;
    }
    if (!streams.contains(handle)) {
        return fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
                    std::string(function) + ": the stream was destroyed or never created by this process");
    }
    *stream = static_cast<Stream*>(handle);
    return ACL_SUCCESS;
}

aclError Runtime::find(aclrtEvent handle, const char* function, EventPtr* event) {
    const auto found = events.find(handle);
    if (found == events.end()) {
        return fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
                    std::string(function) + ": the event was destroyed or never created by this process");
    }
    *event = found->second;
    return ACL_SUCCESS;
}

aclError Runtime::find_device(int32_t index, const char* function, Device** device) {
    if (index < 0 || static_cast<std::size_t>(index) >= devices.size()) {
        return fail(ACL_ERROR_RT_INVALID_DEVICEID,
                    std::string(function) + ": there is no device " + std::to_string(index) +
                        "; the emulator has " + std::to_string(devices.size()) + " (0 to " +
                        std::to_string(devices.size() - 1) + "), NPU_EMULATOR_DEVICES changes that");
    }
    *device = devices[static_cast<std::size_t>(index)].get();
    return ACL_SUCCESS;
}

aclError Runtime::need_context(const char* function, Context** context) {
    *context = current_context();
    if (*context != nullptr) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_CONTEXT_NULL,
                std::string(function) + ": this thread has no context; call aclrtSetDevice first");
}

aclError Runtime::sticky(const Device& device, const char* function) {
    if (device.error.code == ACL_SUCCESS) return ACL_SUCCESS;
    return fail(device.error.code, device.error.sentence + " (reported by " + function + "; device " +
                                       std::to_string(device.index) +
                                       " dropped all work since, until aclrtResetDevice)");
}

aclError usable(const char* function) {
    const Runtime& runtime = Runtime::get();
    if (runtime.lost_in_fork.load(std::memory_order_relaxed)) {
        return fail(
            ACL_ERROR_RT_DEV_SETUP_ERROR,
            std::string(function) + ": process " + std::to_string(getpid()) +
                " was forked from a process that had used the NPU, whose device state a fork cannot inherit; "
                "start workers that use the NPU with multiprocessing's \"spawn\" method");
    }
    if (!runtime.config.problem.empty()) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": " + runtime.config.problem);
    }
    return ACL_SUCCESS;
}

aclError use(const char* function) {
    NPU_RETURN_IF_ERROR(usable(function));
    Runtime& runtime = Runtime::get();
    if (!runtime.used.load(std::memory_order_relaxed) && !runtime.used.exchange(true))
        std::atexit(at_process_exit);
    return ACL_SUCCESS;
}

aclError launch(aclrtStream handle, std::unique_ptr<Task> task, Engine engine) {
    NPU_RETURN_IF_ERROR(use(task->name()));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    if (runtime.exiting.load()) {
        return fail(ACL_ERROR_UNINITIALIZE, std::string(task->name()) + ": the process is exiting");
    }
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(handle, task->name(), &stream));
    return append(lock, *stream, std::move(task), engine);
}

aclError append(Lock& lock, Stream& stream, std::unique_ptr<Task> task, Engine engine) {
    if (stream.graph) {
        const char* name = task->name();
        const std::size_t work = task->work();
        return record_task(stream, {std::move(task), nullptr, name, engine, work});
    }
    if (stream.update) return collect_update(stream, std::move(task));
    Runtime::get().scheduler.submit(lock, stream, std::move(task), engine);
    return ACL_SUCCESS;
}

aclError launch_made(aclrtStream handle, const char* name, MakeTask make, Engine engine) {
    NPU_RETURN_IF_ERROR(use(name));
    Runtime& runtime = Runtime::get();
    {
        Lock lock(runtime.scheduler.mutex);
        Stream* stream = nullptr;
        NPU_RETURN_IF_ERROR(runtime.find(handle, name, &stream));
        if (stream->graph) {
            stream->graph->makes = true;
            return record_task(*stream, {nullptr, std::move(make), name, engine, SIZE_MAX});
        }
    }
    return launch(handle, make(), engine);
}

}  // namespace npu::emulator
