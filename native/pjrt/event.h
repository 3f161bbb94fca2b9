// What callers know as PJRT_Event: a signal that they wait for.
#pragma once

#include <memory>

#include "pjrt/signal.h"

namespace npu::pjrt {

class Event {
  public:
    explicit Event(std::shared_ptr<Signal> signal) : signal_(std::move(signal)) {}
    Signal& signal() const { return *signal_; }

  private:
    std::shared_ptr<Signal> signal_;
};

void bind_event(PJRT_Api& api);

}  // namespace npu::pjrt
