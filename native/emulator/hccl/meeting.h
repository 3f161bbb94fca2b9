// Where the ranks of a group find its segment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "communicator.h"

namespace npu::emulator::hccl {

/// A new memory file that is large enough for any group; nothing where the host gives none.
std::optional<SharedFile> meeting_place();

/// Closes it, if this process made it: those who joined have it mapped.
void leave_meeting_place(const SharedFile& file);

/// Where ranks meet that know nothing of each other but a rank table. The first to come makes a memory file
/// and listens on a socket whose abstract name says which table it is; the others ask the socket whose it is
/// and open the file through /proc. Name and file end with that process, however it ends.
class TableMeeting {
  public:
    /// Waits while an earlier group of the same table is still coming together.
    TableMeeting(const char* rank_table, uint32_t ranks);
    TableMeeting(const TableMeeting&) = delete;
    TableMeeting& operator=(const TableMeeting&) = delete;
    ~TableMeeting();
    int fd() const { return fd_; }  ///< to be taken; < 0: see errno

  private:
    bool host(uint32_t ranks);
    bool visit(uint32_t ranks);

    std::string name_;
    int socket_ = -1;  ///< of the first to come
    int file_ = -1;    ///< the same
    int fd_ = -1;
};

/// The segment of a part of the group, opened by the first of its ranks; < 0: that rank did not come in time.
int subgroup_file(Communicator& parent, const std::vector<uint32_t>& ranks, uint64_t id);

}  // namespace npu::emulator::hccl
