// Devices, contexts, streams and events of CANN as objects that clean up after themselves.
//
// Every operation makes the object's device current in the calling thread for its duration, so that any
// thread may use any object. Objects are safe to use from many threads, except that closing one while another
// thread uses it is the caller's mistake. Failures are thrown as Error.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cann/acl.h"
#include "cann/error.h"

namespace npu::cann {

using Milliseconds = std::chrono::milliseconds;

/// aclInit, once a process. That somebody else (torch_npu) did it before is right as well.
void initialise();

int device_count();
std::string soc_name();

/// Makes a device current in this thread; the one that was current before comes back at the end.
class DeviceGuard {
  public:
    explicit DeviceGuard(int device);
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

  private:
    int32_t previous_ = -1;
};

struct MemoryInfo {
    std::size_t free, total;  // bytes of device memory
};

/// A device by its number. Owns nothing.
class Device {
  public:
    /// Throws std::out_of_range: this process sees no such device.
    explicit Device(int id);
    int id() const { return id_; }
    void synchronize(std::optional<Milliseconds> timeout = {}) const;
    /// Frees everything that this process has on the device; objects made there must not be used afterwards.
    void reset() const;
    /// Stops the work of all streams of the device.
    void abort(Milliseconds timeout) const;
    MemoryInfo memory_info() const;
    bool can_access_peer(const Device& peer) const;
    /// Lets this device read and write memory of the peer. Repeating it is no error.
    void enable_peer_access(const Device& peer) const;
    std::pair<int, int> stream_priority_range() const;  ///< least, greatest

  private:
    int id_;
};

/// A context of its own on a device (each device has a default one, which everything else here uses).
class Context {
  public:
    explicit Context(int device);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    /// Makes it current in the calling thread.
    void make_current() const;
    int device() const { return device_; }
    aclrtContext handle() const { return handle_; }

  private:
    int device_;
    aclrtContext handle_ = nullptr;
};

class Event;

class Stream {
  public:
    explicit Stream(int device, int priority = 0);
    /// A stream that somebody else made (torch_npu, say) and destroys.
    static std::shared_ptr<Stream> borrow(int device, aclrtStream handle);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    int device() const { return device_; }
    aclrtStream handle() const;  ///< Throws ClosedError.
    int32_t id() const;
    bool closed() const { return closed_; }
    /// Waits for its work, then destroys it (a borrowed one is let go). A second time does nothing.
    void close();

    /// Throws Error: a timeout (ACL_ERROR_RT_STREAM_SYNC_TIMEOUT), or what the work on the stream came to.
    void synchronize(std::optional<Milliseconds> timeout = {}) const;
    bool idle() const;
    void record(const Event& event) const;
    void wait(const Event& event) const;
    /// Calls function(argument) on a thread of CANN when the work before it is done; it must not call CANN.
    void launch_host(aclrtHostFunc function, void* argument) const;
    /// Drops what has not run yet.
    void abort() const;

  private:
    Stream(int device, aclrtStream handle, bool owned) : device_(device), owned_(owned), handle_(handle) {}
    int device_;
    bool owned_;
    aclrtStream handle_ = nullptr;
    std::atomic<bool> closed_ = false;
};

class Event {
  public:
    /// `timing`: elapsed_since is meant to be asked.
    explicit Event(int device, bool timing = true);
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    int device() const { return device_; }
    bool timing() const { return timing_; }
    aclrtEvent handle() const;  ///< Throws ClosedError.
    bool closed() const { return closed_; }
    void close();
    /// True when the work before its last record is done, or it was never recorded.
    bool complete() const;
    void synchronize(std::optional<Milliseconds> timeout = {}) const;
    /// Milliseconds from `start` to this one; both recorded and complete. Throws std::logic_error without
    /// timing.
    float elapsed_since(const Event& start) const;

  private:
    int device_;
    bool timing_;
    aclrtEvent handle_ = nullptr;
    std::atomic<bool> closed_ = false;
};

}  // namespace npu::cann
