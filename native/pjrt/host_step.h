// A step of a program that the host does.
#pragma once

#include <vector>

#include "pjrt/program.h"
#include "pjrt/work.h"

namespace npu::pjrt {

/// Waits for the stream, calls the host with copies of the inputs, and puts copying the results on the
/// stream. Throws Status: what the host answered.
Storages run_on_host(Device& device, const HostCall& call, const Storages& inputs,
                     const std::vector<Shape>& shapes, const std::vector<Shape>& results);

}  // namespace npu::pjrt
