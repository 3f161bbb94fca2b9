// What callers hang on runs: contexts with data for custom calls, and marks for their own bookkeeping.
#pragma once

#include <map>
#include <mutex>

#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

/// Data for custom calls of one run, by the number of its type. Thread-safe.
class ExecuteContext {
  public:
    void add(int64_t type, void* data);
    std::map<int64_t, void*> all() const;

  private:
    mutable std::mutex mutex_;
    std::map<int64_t, void*> data_;
};

/// A mark around a caller's wait; there is no profiler that would read it.
class TrackingEvent {};

void bind_execute_context(PJRT_Api& api);

}  // namespace npu::pjrt
