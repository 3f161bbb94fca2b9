#include "pjrt/plan.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "graph/wire.h"
#include "pjrt/host_step.h"

namespace npu::pjrt {
namespace {

// One run of one block.
class Frame {
  public:
    Frame(const Sessions& sessions, const Block& block, const RunInfo& info)
        : sessions_(sessions), block_(block), info_(info), slots_(block.slots.size()) {}

    Storages run(Storages inputs) {
        put(block_.inputs, std::move(inputs));
        for (const Step& step : block_.steps) run_step(step);
        return get(block_.outputs);
    }

  private:
    void run_step(const Step& step) {
        try {
            std::visit([&](const auto& work) { visit(work); }, step.work);
        } catch (...) {
            Failure failure = current_failure();
            if (!step.location.empty()) failure.message += " [" + graph::printable(step.location) + "]";
            throw Status(failure);
        }
    }

    void visit(const std::monostate&) {}

    void visit(const RunModel& run) {
        std::vector<cann::Buffer> inputs, outputs;
        inputs.reserve(run.inputs.size());
        outputs.reserve(run.outputs.size());
        for (uint32_t slot : run.inputs) inputs.push_back({slots_[slot]->address(), slots_[slot]->bytes()});
        for (uint32_t slot : run.outputs) {
            slots_[slot] = allocate(slot);
            outputs.push_back({slots_[slot]->address(), slots_[slot]->bytes()});
        }
        sessions_.model(run.model).run(inputs, outputs, sessions_.device().stream());
    }

    void visit(const HostCall& call) {
        std::vector<Shape> shapes;
        for (uint32_t slot : call.inputs) shapes.push_back(block_.slots[slot].shape);
        std::vector<Shape> results;
        for (uint32_t slot : call.outputs) results.push_back(block_.slots[slot].shape);
        const auto made = call.api == "ffi"
                              ? run_ffi(sessions_.device(), call, get(call.inputs), shapes, results, info_)
                              : run_on_host(sessions_.device(), call, get(call.inputs), shapes, results);
        put(call.outputs, made);
    }

    void visit(const While& loop) {
        Storages carried = get(loop.inputs);
        while (scalar<uint8_t>(*Frame(sessions_, *loop.condition, info_).run(carried)[0]) != 0)
            carried = Frame(sessions_, *loop.body, info_).run(std::move(carried));
        put(loop.outputs, std::move(carried));
    }

    // StableHLO takes the last branch for an index that is out of range.
    void visit(const Case& branch) {
        const auto last = static_cast<int64_t>(branch.branches.size()) - 1;
        const bool boolean = block_.slots[branch.index].shape.type == PJRT_Buffer_Type_PRED;
        const int64_t index =
            boolean ? scalar<uint8_t>(*slots_[branch.index]) != 0 : scalar<int32_t>(*slots_[branch.index]);
        const Block& chosen = *branch.branches[index < 0 ? last : std::min(index, last)];
        put(branch.outputs, Frame(sessions_, chosen, info_).run(get(branch.inputs)));
    }

    template <typename T>
    T scalar(const Storage& storage) const {
        sessions_.device().stream()->synchronize();
        T value{};
        copy_now(sessions_.device(), &value, nullptr, storage.address(), &storage.memory(), sizeof value);
        return value;
    }

    std::shared_ptr<Storage> allocate(uint32_t slot) const {
        return Storage::allocate(sessions_.device().default_memory(), block_.slots[slot].shape.bytes);
    }
    Storages get(const Slots& slots) const {
        Storages storages;
        storages.reserve(slots.size());
        for (uint32_t slot : slots) storages.push_back(slots_[slot]);
        return storages;
    }
    void put(const Slots& slots, Storages storages) {
        for (std::size_t i = 0; i < slots.size(); ++i) slots_[slots[i]] = std::move(storages[i]);
    }

    const Sessions& sessions_;
    const Block& block_;
    const RunInfo& info_;
    Storages slots_;
};

// A copy in other memory of the device, on its stream.
std::shared_ptr<Storage> moved(const std::shared_ptr<Storage>& from, Memory& to) {
    auto storage = Storage::allocate(to, from->bytes());
    copy_on_stream(*storage, *from);
    return storage;
}

// Pinned memory has no order of its own on the stream, so it is kept until the stream has come so far.
void keep_until_done(Device& device, Storages storages) {
    if (!storages.empty()) device.mark()->then([storages](const Failure*) {});
}

}  // namespace

Storages Sessions::run(Storages parameters, const RunInfo& info) const {
    // A result has memory of its own, also where it is an argument's value or another result's: the caller
    // may give each to somebody who writes into it. Only a donated argument's goes on.
    std::set<const Storage*> taken;
    for (std::size_t i = 0; i < parameters.size(); ++i)
        if (std::ranges::find(info.donated, i) == info.donated.end()) taken.insert(parameters[i].get());
    Storages pinned;
    for (auto& parameter : parameters) {
        if (!parameter->memory().on_host()) continue;
        pinned.push_back(parameter);
        parameter = moved(parameter, device_.default_memory());
    }
    if (place_) parameters.push_back(place_);
    Storages results = Frame(*this, *program_->body, info).run(std::move(parameters));
    for (std::size_t i = 0; i < results.size(); ++i) {
        Memory& wanted = device_.memory(program_->results[i].memory_kind);
        if (taken.insert(results[i].get()).second && &results[i]->memory() == &wanted) continue;
        results[i] = moved(results[i], wanted);
        if (wanted.on_host()) pinned.push_back(results[i]);
    }
    keep_until_done(device_, std::move(pinned));
    return results;
}

}  // namespace npu::pjrt
