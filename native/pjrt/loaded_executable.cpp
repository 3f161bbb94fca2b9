#include "pjrt/loaded_executable.h"

#include <algorithm>

#include "graph/wire.h"
#include "pjrt/callbacks.h"
#include "pjrt/compile_options.h"

namespace npu::pjrt {
namespace {

// Where the options put the program; the client's first devices where they do not say.
std::vector<int64_t> place(const Client& client, const CompileOptions& options, int64_t places) {
    if (!options.assignment.empty()) {
        if (static_cast<int64_t>(options.assignment.size()) != places)
            throw invalid("the program is for " + std::to_string(places) + " devices, the assignment has " +
                          std::to_string(options.assignment.size()));
        return options.assignment;
    }
    if (places == 1 && options.device_ordinal >= 0) return {options.device_ordinal};
    std::vector<int64_t> ids;
    const auto& candidates = places == 1 ? client.addressable() : client.devices();
    for (Device* device : candidates)
        if (static_cast<int64_t>(ids.size()) < places) ids.push_back(device->id());
    if (static_cast<int64_t>(ids.size()) < places)
        throw invalid("the program is for " + std::to_string(places) + " devices, there are " +
                      std::to_string(ids.size()));
    return ids;
}

}  // namespace

LoadedExecutable::LoadedExecutable(const Client& client, std::shared_ptr<const Compiled> compiled)
    : client_(client), compiled_(std::move(compiled)) {
    const Program& program = *compiled_->program();
    const int64_t partitions = program.num_partitions;
    assignment_ =
        place(client, CompileOptions::read(compiled_->options()), program.num_replicas * partitions);
    if (!program.groups.empty() && program.assignment != assignment_)
        throw precondition(program.name +
                           " exchanges data between the devices that it was compiled for, and cannot run on "
                           "other ones: compile it for these");
    for (std::size_t i = 0; i < assignment_.size(); ++i) {
        Device* device = client.find(static_cast<int>(assignment_[i]));
        if (device == nullptr || assignment_[i] != device->id())
            throw invalid("the program is for npu:" + std::to_string(assignment_[i]) +
                          ", which does not exist");
        if (!device->addressable()) continue;
        const auto place = static_cast<int64_t>(i);
        devices_.push_back(device);
        logical_.push_back(
            {static_cast<int32_t>(place / partitions), static_cast<int32_t>(place % partitions)});
    }
    provide_groups();
    for (Device* device : devices_) sessions(*device);
}

void LoadedExecutable::provide_groups() const {
    for (const Group& group : compiled_->program()->groups) {
        DeviceGroups devices;
        for (const Slots& members : group.members) {
            devices.emplace_back();
            for (uint32_t member : members)
                devices.back().push_back(client_.find(static_cast<int>(assignment_[member])));
        }
        client_.groups().provide(group.name, devices);
    }
}

// A model must not go while it runs.
LoadedExecutable::~LoadedExecutable() {
    for (auto& [device, loaded] : loaded_)
        if (loaded.last) loaded.last->then([sessions = loaded.sessions](const Failure*) {});
}

void LoadedExecutable::remove() {
    std::map<Device*, Loaded> loaded;
    {
        std::lock_guard lock(mutex_);
        removed_ = true;
        loaded.swap(loaded_);
    }
    for (auto& [device, each] : loaded)
        if (each.last) each.last->then([sessions = each.sessions](const Failure*) {});
}

bool LoadedExecutable::removed() const {
    std::lock_guard lock(mutex_);
    return removed_;
}

std::shared_ptr<Sessions> LoadedExecutable::sessions(Device& device) {
    std::lock_guard lock(mutex_);
    if (removed_) throw invalid("the executable " + compiled_->program()->name + " has been deleted");
    std::shared_ptr<Sessions>& sessions = loaded_[&device].sessions;
    if (!sessions) {
        const auto found = std::ranges::find(devices_, &device);
        const auto place =
            found == devices_.end() ? PJRT_LogicalDeviceIds{} : logical_[found - devices_.begin()];
        sessions = std::make_shared<Sessions>(compiled_->program(), device, place);
    }
    return sessions;
}

void LoadedExecutable::check(Device& device, std::span<Buffer* const> arguments) const {
    const std::vector<Tensor>& parameters = compiled_->program()->parameters;
    if (arguments.size() != parameters.size())
        throw invalid(compiled_->program()->name + " takes " + std::to_string(parameters.size()) +
                      " arguments, " + std::to_string(arguments.size()) + " were given");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i] == nullptr) throw invalid("argument " + std::to_string(i) + " is no buffer");
        const Buffer& buffer = *arguments[i];
        if (&buffer.device() != &device)
            throw invalid("argument " + std::to_string(i) + " is on " + buffer.device().description().text() +
                          ", the program runs on " + device.description().text());
        if (!(buffer.shape() == parameters[i].shape))
            throw invalid("argument " + std::to_string(i) + " is " + buffer.shape().text() + ", " +
                          compiled_->program()->name + " takes " + parameters[i].shape.text());
    }
}

// Nothing is given up before all arguments are known to be there.
Values LoadedExecutable::take(std::span<Buffer* const> arguments, std::span<const int64_t> keep) const {
    Values values;
    values.reserve(arguments.size());
    for (Buffer* buffer : arguments) values.push_back(buffer->value());
    const std::vector<Alias>& aliases = compiled_->program()->aliases;
    if (aliases.empty()) return values;
    std::vector<Buffer*> given;
    for (const Alias& alias : aliases)
        if (std::ranges::find(keep, alias.parameter) == keep.end())
            given.push_back(arguments[alias.parameter]);
    std::vector<Buffer*> uses(arguments.begin(), arguments.end());
    std::ranges::sort(uses);
    for (Buffer* buffer : given)
        if (std::ranges::equal_range(uses, buffer).size() > 1)
            throw invalid("a run cannot donate the same buffer twice, or use it otherwise as well: " +
                          buffer->shape().text() + " is more than one of its arguments");
    for (Buffer* buffer : given) buffer->donate();
    return values;
}

std::vector<LoadedExecutable::Run> LoadedExecutable::run(std::span<Device* const> devices,
                                                         std::span<const std::span<Buffer* const>> arguments,
                                                         std::span<const int64_t> keep, const RunInfo& info) {
    outside_host_call();
    const bool alone = devices.size() == 1 && compiled_->program()->groups.empty();
    const auto lock = alone ? std::unique_lock<std::mutex>() : std::unique_lock(client_.launching());
    provide_groups();  // again after a failure
    // No device begins before it is known that all can.
    std::vector<std::shared_ptr<Sessions>> models;
    std::vector<Values> needs;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        models.push_back(sessions(*devices[i]));
        check(*devices[i], arguments[i]);
    }
    for (std::size_t i = 0; i < devices.size(); ++i) needs.push_back(take(arguments[i], keep));
    RunInfo own = info;
    for (const Alias& alias : compiled_->program()->aliases)
        if (std::ranges::find(keep, alias.parameter) == keep.end()) own.donated.push_back(alias.parameter);
    std::vector<Run> runs;
    for (std::size_t i = 0; i < devices.size(); ++i)
        runs.push_back(launch(*devices[i], models[i], needs[i], own));
    return runs;
}

// A device that does not run leaves the groups, so that the others do not wait for it.
LoadedExecutable::Run LoadedExecutable::launch(Device& device, const std::shared_ptr<Sessions>& models,
                                               const Values& needs, const RunInfo& info) {
    const Program& program = *compiled_->program();
    const auto leave = [&client = client_, compiled = compiled_, &device] {
        for (const Group& group : compiled->program()->groups) client.groups().abandon(group.name, device);
    };
    auto work = [models, held = needs, info, leave] {
        Storages storages;
        storages.reserve(held.size());
        for (const auto& value : held) storages.push_back(value->storage);
        try {
            return models->run(std::move(storages), info);
        } catch (...) {
            leave();
            throw;
        }
    };
    Produced produced;
    try {
        produced = produce(device, needs, program.results.size(), !program.uses_host, std::move(work), leave);
    } catch (...) {
        if (program.groups.empty()) throw;
        produced = failed(current_failure(), program.results.size());  // the peers are on their way
    }
    {
        std::lock_guard lock(mutex_);
        if (const auto found = loaded_.find(&device); found != loaded_.end())
            found->second.last = produced.done;
    }
    Run run;
    run.done = produced.done;
    for (std::size_t i = 0; i < program.results.size(); ++i) {
        const Tensor& result = program.results[i];
        run.results.push_back(
            std::make_unique<Buffer>(result.shape, device.memory(result.memory_kind), produced.values[i]));
    }
    return run;
}

}  // namespace npu::pjrt
