#include "pjrt/work.h"

#include <algorithm>
#include <cstring>

namespace npu::pjrt {
namespace {

constexpr std::size_t kInlineBytes = 256 * 1024;  // copied within the call: cheaper than waking a thread

const Failure* first_failure(const Values& needs) {
    for (const auto& need : needs)
        if (const Failure* failure = need->ready->known_failure()) return failure;
    return nullptr;
}

// What is not on the device's own stream must be there already.
bool reachable(Device& device, const Values& needs) {
    return device.dispatcher().idle() && std::ranges::all_of(needs, [&](const auto& need) {
               return need->ready->precedes(*device.stream()) || need->ready->ready();
           });
}

void do_later(Device& device, const Values& needs, const Produced& produced, const Enqueue& work,
              const std::function<void()>& skipped) {
    try {
        for (const auto& need : needs) {
            const Failure* failure = need->ready->wait();
            if (failure == nullptr) continue;
            if (skipped) skipped();
            return produced.done->set(*failure);
        }
        const Storages storages = work();
        for (std::size_t i = 0; i < storages.size(); ++i) produced.values[i]->storage = storages[i];
        device.mark()->then([done = produced.done](const Failure* failure) {
            done->set(failure == nullptr ? std::nullopt : std::optional(*failure));
        });
    } catch (...) {
        produced.done->set(current_failure());
    }
}

}  // namespace

Produced failed(const Failure& failure, std::size_t count) {
    Produced produced;
    produced.done = Signal::failed(failure);
    for (std::size_t i = 0; i < count; ++i)
        produced.values.push_back(std::make_shared<Value>(Value{nullptr, produced.done}));
    return produced;
}

Produced produce(Device& device, const Values& needs, std::size_t count, bool at_once, Enqueue work,
                 const std::function<void()>& skipped) {
    Produced produced;
    produced.values.reserve(count);
    if (at_once && reachable(device, needs)) {
        if (const Failure* failure = first_failure(needs)) {
            if (skipped) skipped();
            return failed(*failure, count);
        }
        Storages storages = work();
        produced.done = device.mark();
        for (auto& storage : storages)
            produced.values.push_back(std::make_shared<Value>(Value{std::move(storage), produced.done}));
        return produced;
    }
    produced.done = std::make_shared<Signal>();
    for (std::size_t i = 0; i < count; ++i)
        produced.values.push_back(std::make_shared<Value>(Value{nullptr, produced.done}));
    device.dispatcher().post([&device, needs, produced, work = std::move(work), skipped] {
        do_later(device, needs, produced, work, skipped);
    });
    return produced;
}

std::shared_ptr<Value> upload(Memory& memory, const void* data, std::size_t bytes) {
    Device& device = memory.device();
    const std::shared_ptr<Storage> storage = Storage::allocate(memory, bytes);
    // Memory of the pool may still be in use by work on the stream; a stream at rest has none.
    if (memory.on_host() || bytes == 0 || device.stream()->idle()) {
        copy_now(device, storage->address(), &memory, data, nullptr, bytes);
        return std::make_shared<Value>(Value{storage, Signal::done()});
    }
    cann::copy_async(*device.stream(), storage->address(), data, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    return std::make_shared<Value>(Value{storage, device.mark()});
}

namespace {

void take(const Value& value, std::size_t offset, std::size_t bytes,
          const std::function<void(const std::byte*)>& taken, void* to) {
    const Storage& storage = *value.storage;
    if (storage.memory().on_host() && taken) return taken(storage.at(offset));
    Device& device = storage.memory().device();
    if (!taken) return copy_now(device, to, nullptr, storage.at(offset), &storage.memory(), bytes);
    const auto staged = std::make_unique_for_overwrite<std::byte[]>(bytes);
    copy_now(device, staged.get(), nullptr, storage.at(offset), &storage.memory(), bytes);
    taken(staged.get());
}

}  // namespace

std::shared_ptr<Signal> download(const std::shared_ptr<Value>& value, std::size_t offset, std::size_t bytes,
                                 std::function<void(const std::byte*)> taken, void* to) {
    auto done = std::make_shared<Signal>();
    const auto copy = [=, taken = std::move(taken)](const Failure* failure) {
        if (failure != nullptr) return done->set(*failure);
        try {
            take(*value, offset, bytes, taken, to);
            done->set(std::nullopt);
        } catch (...) {
            done->set(current_failure());
        }
    };
    if (bytes > kInlineBytes && value->ready->ready() && value->storage)
        value->storage->memory().device().watcher().post(
            [copy, value] { copy(value->ready->known_failure()); });
    else
        value->ready->then(copy);
    return done;
}

}  // namespace npu::pjrt
