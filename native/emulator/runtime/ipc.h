// Sharing between processes of one machine: a handle is a file descriptor of the exporting process, opened
// through /proc, so nothing is left behind in /dev/shm whatever happens to the processes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "objects.h"
#include "scheduler.h"
#include "shared_file.h"

namespace npu::emulator {

/// An event's progress, in memory that several processes map. Lock-free; waiting polls.
class SharedEvent {
  public:
    SharedEvent(SharedFile file, int fd, void* page);
    SharedEvent(const SharedEvent&) = delete;
    SharedEvent& operator=(const SharedEvent&) = delete;
    ~SharedEvent();

    uint64_t record();                ///< counts a record call and returns its generation
    void reach(uint64_t generation);  ///< that record's place in its stream is reached
    uint64_t recorded() const;
    bool complete() const;  ///< recorded, and the last record reached
    bool wait(uint64_t generation, Deadline deadline) const;
    const SharedFile& file() const { return file_; }

  private:
    struct Page;
    SharedFile file_;
    int fd_;
    Page* page_;
};

/// Makes the event visible to other processes.
aclError share_event(aclrtEvent event, const char* function);

/// A host task that waits for the record that was the last one at the call.
std::unique_ptr<Task> wait_task(std::shared_ptr<SharedEvent> event);

}  // namespace npu::emulator
