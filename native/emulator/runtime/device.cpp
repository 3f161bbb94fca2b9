// Initialisation, devices, and waiting for all of a device's work.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "graph.h"
#include "runtime.h"
#include "timeout.h"

using namespace npu::emulator;

namespace {

/// The number after `"key":` in JSON text, in quotes or not; -1 if the key is not there or no number follows.
int32_t number_of(const std::string& text, const std::string& key) {
    std::size_t at = text.find('"' + key + '"');
    if (at == std::string::npos) return -1;
    at = text.find_first_not_of(" \t\r\n:\"", at + key.size() + 2);
    if (at == std::string::npos || !std::isdigit(static_cast<unsigned char>(text[at]))) return -1;
    return std::atoi(text.c_str() + at);
}

/// Reads what the emulator honours of aclInit's JSON: the default device. What it cannot honour is refused.
aclError read_init_config(const char* path, int32_t* default_device) {
    std::ifstream file(path);
    if (!file)
        return fail(ACL_ERROR_INVALID_FILE,
                    "aclInit: the configuration file " + std::string(path) + " cannot be read");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    for (const char* key : {"\"dump_list\"", "\"dump_path\"", "\"profiler\""}) {
        if (text.find(key) == std::string::npos) continue;
        return fail(
            ACL_ERROR_API_NOT_SUPPORT,
            "aclInit: " + std::string(path) + " asks for " + key +
                ", and the host emulator of CANN has neither operator dumps nor a profiler; remove it");
    }
    *default_device = number_of(text, "default_device");
    return ACL_SUCCESS;
}

aclError synchronize_device(const char* function, Deadline deadline) {
    NPU_RETURN_IF_ERROR(use(function));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context(function, &context));
    Device& device = *context->device;
    NPU_RETURN_IF_ERROR(refuse_captured(device, function));
    for (Stream* stream : std::vector<Stream*>(device.streams)) {
        if (std::ranges::find(device.streams, stream) == device.streams.end()) continue;
        if (!runtime.scheduler.wait(lock, *stream, deadline)) {
            return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                        std::string(function) + ": stream " + std::to_string(stream->id) + " of device " +
                            std::to_string(device.index) + " still has work queued after the time-out");
        }
    }
    return runtime.sticky(device, function);
}

aclError reset_device(int32_t index, const char* function) {
    NPU_RETURN_IF_ERROR(usable(function));
    Runtime& runtime = Runtime::get();
    std::vector<GraphPtr> dropped;  // released without the lock
    Lock lock(runtime.scheduler.mutex);
    Device* device = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find_device(index, function, &device));
    dropped = drop_captures(*device);
    if (device->error.code == ACL_SUCCESS) {
        for (Stream* stream : std::vector<Stream*>(device->streams)) {
            const bool alive = std::ranges::find(device->streams, stream) != device->streams.end();
            if (alive) runtime.scheduler.wait(lock, *stream, Clock::now() + std::chrono::seconds(5));
        }
    }
    runtime.scheduler.abandon(lock, *device);
    device->error = {};
    device->active = false;
    return ACL_SUCCESS;
}

}  // namespace

/// configPath: a JSON file or nullptr. Needed once a process; ACL_ERROR_REPEAT_INITIALIZE afterwards.
aclError aclInit(const char* configPath) {
    NPU_RETURN_IF_ERROR(usable("aclInit"));
    Runtime& runtime = Runtime::get();
    int32_t default_device = -1;
    if (configPath != nullptr) NPU_RETURN_IF_ERROR(read_init_config(configPath, &default_device));
    if (default_device >= 0) {
        Device* device = nullptr;
        NPU_RETURN_IF_ERROR(runtime.find_device(default_device, "aclInit", &device));
    }
    if (runtime.initialized.exchange(true)) {
        return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: this process has initialised ACL already");
    }
    Lock lock(runtime.scheduler.mutex);
    runtime.default_device = default_device;
    return ACL_SUCCESS;
}

aclError aclFinalize() {
    Runtime& runtime = Runtime::get();
    NPU_RETURN_IF_ERROR(usable("aclFinalize"));
    if (!runtime.initialized.exchange(false))
        return fail(ACL_ERROR_UNINITIALIZE,
                    "aclFinalize: aclInit has not been called, or ACL was finalised already");
    runtime.scheduler.stop();
    Lock lock(runtime.scheduler.mutex);
    runtime.default_device = -1;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
    NPU_RETURN_IF_ERROR(usable("aclrtGetDeviceCount"));
    NPU_RETURN_IF_ERROR(require(count, "aclrtGetDeviceCount", "count"));
    *count = Runtime::get().config.devices;
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t deviceId) {
    NPU_RETURN_IF_ERROR(use("aclrtSetDevice"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Device* device = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find_device(deviceId, "aclrtSetDevice", &device));
    runtime.set_current(runtime.primary_context(*device));
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* deviceId) {
    NPU_RETURN_IF_ERROR(usable("aclrtGetDevice"));
    NPU_RETURN_IF_ERROR(require(deviceId, "aclrtGetDevice", "deviceId"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    if (Context* context = runtime.thread_context()) {
        *deviceId = context->device->index;
        return ACL_SUCCESS;
    }
    if (runtime.default_device >= 0) {
        *deviceId = runtime.default_device;
        return ACL_SUCCESS;
    }
    return fail(ACL_ERROR_RT_CONTEXT_NULL,
                "aclrtGetDevice: this thread has set no device; call aclrtSetDevice first");
}

/// Waits for the device's work (a failed device's is dropped), forgets its error and deactivates its primary
/// context. Streams, events and memory stay valid until their owner releases them.
aclError aclrtResetDevice(int32_t deviceId) { return reset_device(deviceId, "aclrtResetDevice"); }

aclError aclrtResetDeviceForce(int32_t deviceId) { return reset_device(deviceId, "aclrtResetDeviceForce"); }

aclError aclrtSynchronizeDevice() { return synchronize_device("aclrtSynchronizeDevice", std::nullopt); }

/// timeout: milliseconds, -1 for ever.
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    Deadline deadline;
    NPU_RETURN_IF_ERROR(read_timeout(timeout, "aclrtSynchronizeDeviceWithTimeout", &deadline));
    return synchronize_device("aclrtSynchronizeDeviceWithTimeout", deadline);
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
    NPU_RETURN_IF_ERROR(usable("aclrtGetPrimaryCtxState"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Device* device = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find_device(deviceId, "aclrtGetPrimaryCtxState", &device));
    if (flags != nullptr) *flags = 0;
    if (active != nullptr) *active = device->active ? 1 : 0;
    return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
    NPU_RETURN_IF_ERROR(usable("aclrtQueryDeviceStatus"));
    NPU_RETURN_IF_ERROR(require(deviceStatus, "aclrtQueryDeviceStatus", "deviceStatus"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Device* device = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find_device(deviceId, "aclrtQueryDeviceStatus", &device));
    *deviceStatus =
        device->error.code == ACL_SUCCESS ? ACL_RT_DEVICE_STATUS_NORMAL : ACL_RT_DEVICE_STATUS_ABNORMAL;
    return ACL_SUCCESS;
}
