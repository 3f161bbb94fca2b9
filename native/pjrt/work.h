// Work of a device in the order it was asked for: put on the stream at once where that is possible, else by
// the device's dispatcher when what it needs is there.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pjrt/buffer.h"

namespace npu::pjrt {

using Values = std::vector<std::shared_ptr<Value>>;
using Storages = std::vector<std::shared_ptr<Storage>>;

struct Produced {
    Values values;
    std::shared_ptr<Signal> done;  ///< of all of them
};

/// Puts work on the stream and gives the memory of its results; what is on the stream then fills them.
using Enqueue = std::function<Storages()>;

/// Values of `count` results that `work` makes from `needs`. A failure of a need is the results' failure, and
/// the work is not done then. `at_once`: false where the work waits for the device or calls the host.
/// `skipped` is called where the work is not done. Throws what the work throws when it is done within the
/// call.
Produced produce(Device& device, const Values& needs, std::size_t count, bool at_once, Enqueue work,
                 const std::function<void()>& skipped = {});

/// Results that are not made.
Produced failed(const Failure& failure, std::size_t count);

/// Memory of the given place with bytes of the host in it. Those may change after the call.
std::shared_ptr<Value> upload(Memory& memory, const void* data, std::size_t bytes);

/// Copies `bytes` from `offset` of the value to host memory; the signal tells when it is done.
std::shared_ptr<Signal> download(const std::shared_ptr<Value>& value, std::size_t offset, std::size_t bytes,
                                 std::function<void(const std::byte* bytes)> taken, void* to);

}  // namespace npu::pjrt
