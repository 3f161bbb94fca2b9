#include "pjrt/groups.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

namespace npu::pjrt {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

// The store holds text.
std::string as_text(const cann::RootInfo& root) {
    std::string text;
    for (std::byte byte : root) {
        text += kDigits[std::to_integer<unsigned>(byte) >> 4];
        text += kDigits[std::to_integer<unsigned>(byte) & 15];
    }
    return text;
}

cann::RootInfo from_text(const std::string& text, const std::string& key) {
    cann::RootInfo root;
    bool fits = text.size() == 2 * root.size();
    for (std::size_t i = 0; fits && i < root.size(); ++i) {
        const char* high = std::strchr(kDigits, text[2 * i]);
        const char* low = std::strchr(kDigits, text[2 * i + 1]);
        fits = high != nullptr && low != nullptr;
        if (fits) root[i] = static_cast<std::byte>((high - kDigits) << 4 | (low - kDigits));
    }
    if (!fits)
        throw Status(PJRT_Error_Code_DATA_LOSS,
                     "what another process left under " + key + " is no root information of HCCL");
    return root;
}

struct Seat {
    Device* device;
    cann::RootInfo root;
    int rank, size;
    std::shared_ptr<cann::Communicator> made;
    std::optional<Failure> failure;
};

void sit_down(Seat& seat, const std::string& name) {
    try {
        cann::CommunicatorOptions options;
        options.name = name;
        seat.made = cann::Communicator::join(seat.root, seat.rank, seat.size, seat.device->number(), options);
    } catch (...) {
        seat.failure = current_failure();
    }
}

}  // namespace

// The first device's process makes it, and the others of the group read it.
cann::RootInfo Groups::root(const std::string& key, const std::vector<Device*>& group) const {
    std::set<int> processes;
    for (const Device* device : group) processes.insert(device->description().process());
    if (!group.front()->addressable()) return from_text(store_.get(key), key);
    const cann::RootInfo made = cann::Communicator::root_info(group.front()->number());
    if (processes.size() > 1) store_.put(key, as_text(made));
    return made;
}

Groups::Members Groups::join(const std::string& name, const DeviceGroups& groups) const {
    std::vector<Seat> seats;
    for (const auto& group : groups) {
        if (std::ranges::none_of(group, [](const Device* device) { return device->addressable(); })) continue;
        const auto key = "npu_pjrt/group/" + name + "/" + std::to_string(group.front()->id());
        const cann::RootInfo shared = root(key, group);
        for (std::size_t rank = 0; rank < group.size(); ++rank)
            if (group[rank]->addressable())
                seats.push_back({group[rank], shared, static_cast<int>(rank), static_cast<int>(group.size()),
                                 nullptr, std::nullopt});
    }
    std::vector<std::thread> threads;  // each waits for all of its group
    for (Seat& seat : seats) threads.emplace_back([&seat, &name] { sit_down(seat, name); });
    for (std::thread& thread : threads) thread.join();
    Members members;
    for (const Seat& seat : seats) {
        if (seat.failure) throw Status(*seat.failure);
        members[seat.device] = seat.made;
    }
    return members;
}

void Groups::provide(const std::string& name, const DeviceGroups& groups) {
    std::shared_ptr<Entry> entry;
    bool mine = false;
    {
        std::lock_guard lock(mutex_);
        std::shared_ptr<Entry>& found = entries_[name];
        mine = !found;
        if (mine) found = std::make_shared<Entry>();
        entry = found;
    }
    if (!mine) return entry->made.get();
    try {
        entry->members = join(name, groups);
        entry->promise.set_value();
    } catch (...) {
        entry->promise.set_exception(std::current_exception());
        std::lock_guard lock(mutex_);
        entries_.erase(name);
        throw;
    }
}

void Groups::abandon(const std::string& name, const Device& device) {
    std::shared_ptr<Entry> entry;
    {
        std::lock_guard lock(mutex_);
        const auto found = entries_.find(name);
        if (found == entries_.end()) return;
        entry = found->second;
        entries_.erase(found);
    }
    const auto member = entry->members.find(&device);
    if (member != entry->members.end()) member->second->close();
}

}  // namespace npu::pjrt
