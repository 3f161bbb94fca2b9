#include "cann/runtime.h"

#include <mutex>

#include "cann/api.h"

namespace npu::cann {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

int32_t timeout_of(const std::optional<Milliseconds>& timeout) {
    return timeout ? static_cast<int32_t>(timeout->count()) : -1;
}

}  // namespace

void initialise() {
    static std::once_flag once;
    std::call_once(once, [] {
        const aclError code = api::aclInit(nullptr);
        if (code != ACL_ERROR_REPEAT_INITIALIZE) check(Family::acl, code, "aclInit", "initialising CANN");
    });
}

int device_count() {
    initialise();
    uint32_t count = 0;
    api::call(api::aclrtGetDeviceCount, "counting the devices", &count);
    return static_cast<int>(count);
}

std::string soc_name() {
    initialise();
    const char* name = api::aclrtGetSocName();
    return name == nullptr ? "unknown" : name;
}

DeviceGuard::DeviceGuard(int device) {
    initialise();
    int32_t current = -1;
    // It answers an error in a thread that has no device yet.
    if (api::aclrtGetDevice(&current) == ACL_SUCCESS) {
        if (current == device) return;
        previous_ = current;
    }
    api::call(api::aclrtSetDevice, [&] { return "making npu:" + number(device) + " current"; }, device);
}

DeviceGuard::~DeviceGuard() {
    if (previous_ >= 0) api::aclrtSetDevice(previous_);
}

Device::Device(int id) : id_(id) {
    const int count = device_count();
    if (id < 0 || id >= count)
        throw std::out_of_range("npu:" + number(id) + " does not exist: this process sees " + number(count) +
                                " devices (ASCEND_RT_VISIBLE_DEVICES chooses them)");
}

void Device::synchronize(std::optional<Milliseconds> timeout) const {
    DeviceGuard guard(id_);
    const auto doing = [&] { return "waiting for all work of npu:" + number(id_); };
    if (timeout)
        api::call(api::aclrtSynchronizeDeviceWithTimeout, doing, timeout_of(timeout));
    else
        api::call(api::aclrtSynchronizeDevice, doing);
}

void Device::reset() const {
    api::call(api::aclrtResetDevice, [&] { return "resetting npu:" + number(id_); }, id_);
}

void Device::abort(Milliseconds timeout) const {
    DeviceGuard guard(id_);
    api::call(
        api::aclrtDeviceTaskAbort, [&] { return "stopping the work of npu:" + number(id_); }, id_,
        static_cast<uint32_t>(timeout.count()));
}

MemoryInfo Device::memory_info() const {
    DeviceGuard guard(id_);
    MemoryInfo info{};
    api::call(
        api::aclrtGetMemInfo, [&] { return "asking for the memory of npu:" + number(id_); }, ACL_HBM_MEM,
        &info.free, &info.total);
    return info;
}

bool Device::can_access_peer(const Device& peer) const {
    if (peer.id_ == id_) return true;
    int32_t answer = 0;
    api::call(
        api::aclrtDeviceCanAccessPeer,
        [&] { return "asking whether npu:" + number(id_) + " reaches npu:" + number(peer.id_); }, &answer,
        id_, peer.id_);
    return answer != 0;
}

void Device::enable_peer_access(const Device& peer) const {
    if (peer.id_ == id_) return;
    DeviceGuard guard(id_);
    api::call(
        api::aclrtDeviceEnablePeerAccess,
        [&] { return "letting npu:" + number(id_) + " access npu:" + number(peer.id_); }, peer.id_, 0U);
}

std::pair<int, int> Device::stream_priority_range() const {
    DeviceGuard guard(id_);
    int32_t least = 0, greatest = 0;
    api::call(api::aclrtDeviceGetStreamPriorityRange, "asking for the priorities of streams", &least,
              &greatest);
    return {least, greatest};
}

Context::Context(int device) : device_(device) {
    initialise();
    api::call(
        api::aclrtCreateContext, [&] { return "creating a context on npu:" + number(device); }, &handle_,
        device);
}

Context::~Context() {
    if (handle_ != nullptr) api::aclrtDestroyContext(handle_);
}

void Context::make_current() const {
    api::call(api::aclrtSetCurrentContext, "making a context current", handle_);
}

Stream::Stream(int device, int priority) : device_(device), owned_(true) {
    DeviceGuard guard(device);
    api::call(
        api::aclrtCreateStreamWithConfig, [&] { return "creating a stream on npu:" + number(device); },
        &handle_, static_cast<uint32_t>(priority),
        static_cast<uint32_t>(ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
}

std::shared_ptr<Stream> Stream::borrow(int device, aclrtStream handle) {
    initialise();
    return std::shared_ptr<Stream>(new Stream(device, handle, false));
}

Stream::~Stream() {
    if (closed_.exchange(true) || !owned_ || handle_ == nullptr) return;
    try {
        DeviceGuard guard(device_);
        api::aclrtSynchronizeStream(handle_);  // destroying it waits in some versions of CANN only
        api::aclrtDestroyStream(handle_);
    } catch (const std::exception&) {  // the device was reset under it: there is nothing left to destroy
    }
}

aclrtStream Stream::handle() const {
    if (closed_) throw ClosedError("the stream on npu:" + number(device_) + " is closed; make a new one");
    return handle_;
}

int32_t Stream::id() const {
    DeviceGuard guard(device_);
    int32_t id = -1;
    api::call(api::aclrtStreamGetId, "asking for the number of a stream", handle(), &id);
    return id;
}

void Stream::close() {
    if (closed_) return;
    DeviceGuard guard(device_);
    if (closed_.exchange(true) || !owned_) return;
    const auto doing = [&] { return "ending a stream of npu:" + number(device_); };
    const aclError work = api::aclrtSynchronizeStream(handle_);
    api::call(api::aclrtDestroyStream, doing, handle_);
    check(Family::acl, work, "aclrtSynchronizeStream", doing);
}

void Stream::synchronize(std::optional<Milliseconds> timeout) const {
    DeviceGuard guard(device_);
    const auto doing = [&] {
        return "waiting for a stream of npu:" + number(device_) +
               (timeout ? " for " + number(timeout->count()) + " ms" : "");
    };
    if (timeout)
        api::call(api::aclrtSynchronizeStreamWithTimeout, doing, handle(), timeout_of(timeout));
    else
        api::call(api::aclrtSynchronizeStream, doing, handle());
}

bool Stream::idle() const {
    DeviceGuard guard(device_);
    aclrtStreamStatus status{};
    api::call(api::aclrtStreamQuery, "asking whether a stream is idle", handle(), &status);
    return status == ACL_STREAM_STATUS_COMPLETE;
}

void Stream::record(const Event& event) const {
    DeviceGuard guard(device_);
    api::call(api::aclrtRecordEvent, "recording an event", event.handle(), handle());
}

void Stream::wait(const Event& event) const {
    DeviceGuard guard(device_);
    api::call(api::aclrtStreamWaitEvent, "making a stream wait for an event", handle(), event.handle());
}

void Stream::launch_host(aclrtHostFunc function, void* argument) const {
    DeviceGuard guard(device_);
    api::call(api::aclrtLaunchHostFunc, "putting a host function on a stream", handle(), function, argument);
}

void Stream::abort() const {
    DeviceGuard guard(device_);
    api::call(api::aclrtStreamAbort, "dropping the work of a stream", handle());
}

Event::Event(int device, bool timing) : device_(device), timing_(timing) {
    DeviceGuard guard(device);
    const uint32_t flags = ACL_EVENT_SYNC | (timing ? ACL_EVENT_TIME_LINE : 0U);
    api::call(
        api::aclrtCreateEventExWithFlag, [&] { return "creating an event on npu:" + number(device); },
        &handle_, flags);
}

Event::~Event() {
    if (closed_.exchange(true) || handle_ == nullptr) return;
    try {
        DeviceGuard guard(device_);
        api::aclrtDestroyEvent(handle_);
    } catch (const std::exception&) {  // the device was reset under it
    }
}

aclrtEvent Event::handle() const {
    if (closed_) throw ClosedError("the event on npu:" + number(device_) + " is closed; make a new one");
    return handle_;
}

void Event::close() {
    if (closed_) return;
    DeviceGuard guard(device_);
    if (closed_.exchange(true)) return;
    api::call(
        api::aclrtDestroyEvent, [&] { return "destroying an event of npu:" + number(device_); }, handle_);
}

bool Event::complete() const {
    DeviceGuard guard(device_);
    aclrtEventRecordedStatus status{};
    api::call(api::aclrtQueryEventStatus, "asking whether an event is complete", handle(), &status);
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void Event::synchronize(std::optional<Milliseconds> timeout) const {
    DeviceGuard guard(device_);
    if (timeout)
        api::call(api::aclrtSynchronizeEventWithTimeout, "waiting for an event", handle(),
                  timeout_of(timeout));
    else
        api::call(api::aclrtSynchronizeEvent, "waiting for an event", handle());
}

float Event::elapsed_since(const Event& start) const {
    if (!timing_ || !start.timing_)
        throw std::logic_error("an event made with timing=False knows no time; make both with timing=True");
    DeviceGuard guard(device_);
    float milliseconds = 0;
    api::call(api::aclrtEventElapsedTime, "asking for the time between two events", &milliseconds,
              start.handle(), handle());
    return milliseconds;
}

}  // namespace npu::cann
