// What callers know as PJRT_LoadedExecutable: a program on its devices.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plan.h"

namespace npu::pjrt {

/// Thread-safe.
class LoadedExecutable {
  public:
    /// Loads the models on this process's devices of the assignment. Throws Status, cann::Error.
    LoadedExecutable(const Client& client, std::shared_ptr<const Compiled> compiled);
    ~LoadedExecutable();

    const std::shared_ptr<const Compiled>& compiled() const { return compiled_; }
    /// All of the assignment, replica by replica.
    const std::vector<int64_t>& assignment() const { return assignment_; }
    const std::vector<Device*>& devices() const { return devices_; }
    const std::vector<PJRT_LogicalDeviceIds>& logical_ids() const { return logical_; }
    void remove();
    bool removed() const;

    struct Run {
        std::vector<std::unique_ptr<Buffer>> results;
        std::shared_ptr<Signal> done;
    };
    /// One run on each of the devices, with the device's own arguments. `keep`: parameters that are not given
    /// up although the program would take them. Throws Status: arguments that do not fit; a failure of the
    /// run itself is in the results.
    std::vector<Run> run(std::span<Device* const> devices,
                         std::span<const std::span<Buffer* const>> arguments, std::span<const int64_t> keep,
                         const RunInfo& info);

  private:
    struct Loaded {
        std::shared_ptr<Sessions> sessions;
        std::shared_ptr<Signal> last;  ///< of the last run
    };

    /// The arguments' values, and the parameters whose buffers have given them up, ascending.
    struct Taken {
        Values values;
        std::vector<uint32_t> given_up;
    };

    std::shared_ptr<Sessions> sessions(Device& device);
    void provide_groups() const;
    Run launch(Device& device, const std::shared_ptr<Sessions>& models, const Taken& taken,
               const RunInfo& info);
    void check(Device& device, std::span<Buffer* const> arguments) const;
    Taken take(std::span<Buffer* const> arguments, std::span<const int64_t> keep) const;

    const Client& client_;
    std::shared_ptr<const Compiled> compiled_;
    std::vector<int64_t> assignment_;
    std::vector<Device*> devices_;
    std::vector<PJRT_LogicalDeviceIds> logical_;
    mutable std::mutex mutex_;
    bool removed_ = false;
    std::map<Device*, Loaded> loaded_;
};

void bind_loaded_executable(PJRT_Api& api);

}  // namespace npu::pjrt
