// Runs a program's steps on a device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cann/graph_session.h"
#include "pjrt/ffi.h"
#include "pjrt/program.h"
#include "pjrt/work.h"

namespace npu::pjrt {

/// Memory that a model works in, in bytes. Throws cann::Error.
std::size_t work_bytes(std::span<const std::byte> model);

/// A program's models, loaded on one device. Thread-safe.
class Sessions {
  public:
    /// `place`: of the device in the program. Throws Status (a model is not what the program says),
    /// cann::Error.
    Sessions(std::shared_ptr<const Program> program, Device& device, const PJRT_LogicalDeviceIds& place);

    const Program& program() const { return *program_; }
    Device& device() const { return device_; }
    cann::GraphSession& model(uint32_t index) const { return *models_[index]; }

    /// Puts a run on the device's stream, and waits for it in between where the program calls the host.
    /// `parameters` on any memory of the device; the results are on theirs. A result may be on the memory of
    /// a parameter in `given_up` (ascending), else it has memory of its own. Throws Status, cann::Error.
    Storages run(Storages parameters, std::span<const uint32_t> given_up, const RunInfo& info) const;

  private:
    std::shared_ptr<const Program> program_;
    Device& device_;
    std::vector<std::shared_ptr<cann::GraphSession>> models_;
    std::shared_ptr<Storage> place_;  ///< null: the program does not ask
};

}  // namespace npu::pjrt
