// Groups of devices that exchange data: HCCL's communicators, made once and kept.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cann/communicator.h"
#include "pjrt/device.h"
#include "pjrt/key_value_store.h"

namespace npu::pjrt {

/// What models call by one name: each device is in one of the groups, whose ranks are in the order of the
/// list.
using DeviceGroups = std::vector<std::vector<Device*>>;

/// Thread-safe.
class Groups {
  public:
    Groups(int process, KeyValueStore store) : process_(process), store_(store) {}

    /// Makes the communicators of this process's devices, with the other processes, unless they are there.
    /// The same name must always come with the same groups. Throws Status, cann::Error.
    void provide(const std::string& name, const DeviceGroups& groups);
    /// Ends the communicators that a device will not come to: its peers get an error instead of waiting.
    void abandon(const std::string& name, const Device& device);

  private:
    using Members = std::map<const Device*, std::shared_ptr<cann::Communicator>>;
    struct Entry {
        std::promise<void> promise;
        std::shared_future<void> made{promise.get_future()};
        Members members;
    };

    Members join(const std::string& name, const DeviceGroups& groups) const;
    cann::RootInfo root(const std::string& key, const std::vector<Device*>& group) const;

    const int process_;
    const KeyValueStore store_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace npu::pjrt
