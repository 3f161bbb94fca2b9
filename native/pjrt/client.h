// The client: all devices, of this process and of the others.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "pjrt/groups.h"
#include "pjrt/topology.h"

namespace npu::pjrt {

/// Immutable after its making, so thread-safe. Everything that came from it must be gone before it is.
class Client {
  public:
    /// `counts`: the devices of each process, `kinds` their SoCs; `process`: which one this is.
    Client(const std::vector<int>& counts, const std::vector<std::string>& kinds, int process,
           const KeyValueStore& store);

    int process() const { return process_; }
    const std::string& version() const { return topology_->version(); }
    const std::vector<Device*>& devices() const { return all_; }
    const std::vector<Device*>& addressable() const { return own_; }
    const std::vector<Memory*>& memories() const { return memories_; }
    Topology& topology() const { return *topology_; }
    Groups& groups() const { return *groups_; }
    /// Held while a program is put on several devices: all of them must see exchanges in one order.
    std::mutex& launching() const { return launching_; }

    /// Null: there is none.
    Device* find(int id) const;
    Device* find_local(int number) const;
    /// Of a call that names a memory or a device, the memory first. Throws Status: neither.
    Memory& place(Memory* memory, Device* device) const;

  private:
    int process_;
    std::deque<Device> storage_;
    std::vector<Device*> all_, own_;
    std::vector<Memory*> memories_;
    std::unique_ptr<Topology> topology_;
    std::unique_ptr<Groups> groups_;
    mutable std::mutex launching_;
};

void bind_client(PJRT_Api& api);

}  // namespace npu::pjrt
