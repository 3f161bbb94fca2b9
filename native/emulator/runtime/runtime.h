// The process's one runtime: configuration, devices, and which handles are alive.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "config.h"
#include "error.h"
#include "objects.h"
#include "scheduler.h"

namespace npu::emulator {

class Runtime {
  public:
    /// Never destroyed: threads and other libraries may outlive static destruction.
    static Runtime& get();

    const Config config;
    Scheduler scheduler;
    std::vector<std::unique_ptr<Device>> devices;
    std::unordered_set<void*> streams;
    std::unordered_set<void*> contexts;
    std::unordered_map<void*, EventPtr> events;
    std::unordered_map<void*, NotifyPtr> notifies;
    std::unordered_map<void*, std::shared_ptr<Graph>> graphs;
    std::unordered_map<uint32_t, std::shared_ptr<Graph>> captures;  ///< that run, by the graph's id
    std::atomic<bool> initialized{false};                           ///< between aclInit and aclFinalize
    int32_t default_device = -1;                                    ///< aclInit's defaultDevice, -1: none
    std::atomic<bool> used{false};          ///< a device was set or allocated on: not usable after a fork
    std::atomic<bool> exiting{false};       ///< the process's exit handlers run: nothing is launched any more
    std::atomic<bool> lost_in_fork{false};  ///< this process is a fork of one that used a device

    Stream* new_stream(Device& device, uint32_t priority, uint32_t flags);
    /// A stream that no handle leads to.
    Stream* hidden_stream(Device& device);
    Context* primary_context(Device& device);
    Context* new_context(Device& device);

    /// The calling thread's context, or the default device's; nullptr: there is none. Needs the lock.
    Context* current_context();
    /// The context that the calling thread set itself, or nullptr. Needs the lock.
    Context* thread_context() const;
    void set_current(Context* context);

    /// The stream of a handle (nullptr: the current context's default stream); fails for what is none. Needs
    /// the lock.
    aclError find(aclrtStream handle, const char* function, Stream** stream);
    aclError find(aclrtEvent handle, const char* function, EventPtr* event);
    aclError find_device(int32_t index, const char* function, Device** device);
    aclError need_context(const char* function, Context** context);

    /// The error that the device keeps since a task failed, as the calling thread's error; else success.
    aclError sticky(const Device& device, const char* function);

    uint32_t next_id() { return ++last_id_; }

  private:
    Runtime();
    uint32_t last_id_ = 0;
};

/// `usable`, and marks the runtime as used (a fork from now on cannot use it).
aclError use(const char* function);

}  // namespace npu::emulator
