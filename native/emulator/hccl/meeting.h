// Where the ranks of a group find its segment.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "communicator.h"

namespace npu::emulator::hccl {

/// A new memory file that is large enough for any group; nothing where the host gives none.
std::optional<SharedFile> meeting_place();

/// Closes it, if this process made it: those who joined have it mapped.
void leave_meeting_place(const SharedFile& file);

/// A file in /dev/shm named by a rank table, mode 0600: for ranks that know nothing else of each other. Its
/// name is gone when the last of them is here (or this one gave up).
class TableMeeting {
  public:
    TableMeeting(const char* rank_table, uint32_t ranks);
    TableMeeting(const TableMeeting&) = delete;
    TableMeeting& operator=(const TableMeeting&) = delete;
    ~TableMeeting();
    int fd() const { return fd_; }  ///< to be taken; < 0: see errno

  private:
    std::string name_;
    int fd_ = -1;
};

/// The segment of a part of the group, opened by the first of its ranks; < 0: that rank did not come in time.
int subgroup_file(Communicator& parent, const std::vector<uint32_t>& ranks, uint64_t id);

}  // namespace npu::emulator::hccl
