// Memory files that processes of one machine share. A file is named by its owner's descriptor and opened
// through /proc, so nothing is left behind in /dev/shm whatever happens to the processes. Private to the
// emulator, exported by libascendcl.so for its other libraries.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace npu::emulator {

/// Names a memory file of a process. The nonce tells a file from a later one with the same number.
struct SharedFile {
    int32_t pid = 0;
    int32_t fd = -1;
    uint32_t nonce = 0;
};

/// A new memory file of `size` bytes, named so that open_shared() can verify it. fd < 0: the host refused.
SharedFile create_shared(std::size_t size);

/// Opens another process's (or one's own) memory file; < 0: that process ended, or closed it.
int open_shared(const SharedFile& file);

}  // namespace npu::emulator
#pragma GCC visibility pop
