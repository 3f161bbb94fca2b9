// A device: what it is called, its memories, and (where this process has it) its stream and threads.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cann/pool.h"
#include "pjrt/memory.h"
#include "pjrt/named_values.h"
#include "pjrt/signal.h"
#include "pjrt/worker.h"

namespace npu::pjrt {

/// What is known of a device without having it. Immutable, so thread-safe.
class DeviceDescription {
  public:
    /// `id`: over all processes; `local`: in its own process.
    DeviceDescription(int id, int process, int local, std::string kind);

    int id() const { return id_; }
    int process() const { return process_; }
    int local() const { return local_; }
    const std::string& kind() const { return kind_; }
    const std::string& text() const { return text_; }  ///< "npu:0"
    const std::string& repr() const { return repr_; }
    const NamedValues& attributes() const { return attributes_; }

  private:
    int id_, process_, local_;
    std::string kind_, text_, repr_;
    NamedValues attributes_;
};

/// Thread-safe.
class Device {
  public:
    /// `number`: CANN's, -1 for a device of another process. `first_memory`: the id of its first memory.
    Device(std::shared_ptr<DeviceDescription> description, int number, int first_memory);

    DeviceDescription& description() const { return *description_; }
    int id() const { return description_->id(); }
    bool addressable() const { return number_ >= 0; }
    int number() const { return number_; }
    const std::vector<Memory*>& memories() const { return memory_list_; }
    Memory& default_memory() const { return *memory_list_.front(); }
    /// By its name, "" is the default one. Throws Status: there is none.
    Memory& memory(const std::string& kind) const;

    /// Where all work of the device goes. Throws Status: another process has the device.
    const std::shared_ptr<cann::Stream>& stream();
    std::shared_ptr<cann::Pool> pool() const { return cann::Pool::of(number_); }
    /// A signal of everything that is on the stream now.
    std::shared_ptr<Moment> mark();
    /// Waits for the device, and copies what is ready to the host.
    Worker& watcher() { return watcher_; }
    /// Does in order what cannot be put on the stream at once.
    Worker& dispatcher() { return dispatcher_; }

  private:
    std::shared_ptr<DeviceDescription> description_;
    int number_;
    std::deque<Memory> memories_;
    std::vector<Memory*> memory_list_;
    std::once_flag once_;
    std::shared_ptr<cann::Stream> stream_;
    std::mutex mutex_;
    std::deque<std::weak_ptr<Moment>> moments_;  ///< the last ones, which may hold events of CANN
    Worker watcher_, dispatcher_;
};

void bind_device(PJRT_Api& api);
void bind_device_description(PJRT_Api& api);

}  // namespace npu::pjrt
