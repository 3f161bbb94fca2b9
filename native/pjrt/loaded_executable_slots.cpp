// PJRT_LoadedExecutable_*, and the calls of the client that make them.
#include "pjrt/abi.h"
#include "pjrt/compile_options.h"
#include "pjrt/execute_context.h"
#include "pjrt/loaded_executable.h"

namespace npu::pjrt {
namespace {

LoadedExecutable& loaded(LoadedExecutable* handle) { return need(handle, "executable"); }

void compile(PJRT_Client_Compile_Args& args) {
    auto compiled =
        Compiled::compile(need(args.program, "program"), {args.compile_options, args.compile_options_size});
    args.executable = new LoadedExecutable(need(args.client, "client"), std::move(compiled));
}

void deserialise(PJRT_Executable_DeserializeAndLoad_Args& args) {
    auto compiled = Compiled::load(
        {args.serialized_executable, args.serialized_executable_size},
        {args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size});
    args.loaded_executable = new LoadedExecutable(need(args.client, "client"), std::move(compiled));
}

void load(PJRT_Client_Load_Args& args) {
    auto compiled = need(args.executable, "executable").compiled();
    if (args.compile_options_size > 0)
        compiled = std::make_shared<Compiled>(compiled->program(),
                                              text(args.compile_options, args.compile_options_size));
    args.loaded_executable = new LoadedExecutable(need(args.client, "client"), std::move(compiled));
}

void destroy(PJRT_LoadedExecutable_Destroy_Args& args) { delete args.executable; }

void get_executable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
    args.executable = new Executable(loaded(args.loaded_executable).compiled());
}

void devices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
    const auto& devices = loaded(args.executable).devices();
    args.addressable_devices = devices.data();
    args.num_addressable_devices = devices.size();
}

// Asked twice: for the count, then with memory for them.
void logical_ids(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& args) {
    const auto& ids = loaded(args.executable).logical_ids();
    args.num_addressable_device_logical_ids = ids.size();
    if (args.addressable_device_logical_ids != nullptr)
        std::ranges::copy(ids, args.addressable_device_logical_ids);
}

void assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
    const LoadedExecutable& asked = loaded(args.executable);
    const Program& program = *asked.compiled()->program();
    auto bytes = std::make_unique<Bytes>(
        serialise_assignment(asked.assignment(), program.num_replicas, program.num_partitions));
    args.serialized_bytes = bytes->text.data();
    args.serialized_bytes_size = bytes->text.size();
    args.serialized_device_assignment_deleter = delete_bytes;
    args.serialized_device_assignment = bytes.release();
}

void remove(PJRT_LoadedExecutable_Delete_Args& args) { loaded(args.executable).remove(); }

void is_removed(PJRT_LoadedExecutable_IsDeleted_Args& args) {
    args.is_deleted = loaded(args.executable).removed();
}

void fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
    const std::string& text = loaded(args.executable).compiled()->program()->fingerprint;
    args.executable_fingerprint = text.data();
    args.executable_fingerprint_size = text.size();
}

// The devices of a run: all of ours, or the one that the caller names.
std::vector<Device*> devices_of(const PJRT_LoadedExecutable_Execute_Args& args) {
    std::vector<Device*> devices = loaded(args.executable).devices();
    if (args.execute_device != nullptr) devices = {args.execute_device};
    if (args.num_devices != devices.size())
        throw invalid("the program runs on " + std::to_string(devices.size()) +
                      " devices of this process, arguments were given for " +
                      std::to_string(args.num_devices));
    return devices;
}

void execute(PJRT_LoadedExecutable_Execute_Args& args) {
    LoadedExecutable& executable = loaded(args.executable);
    const PJRT_ExecuteOptions& options = need(args.options, "execute options");
    if (options.num_send_ops > 0 || options.num_recv_ops > 0)
        throw unimplemented("send and receive callbacks are not possible on npu; use host callbacks");
    const std::span keep(options.non_donatable_input_indices, options.num_non_donatable_input_indices);
    RunInfo info{options.launch_id, {}};
    if (options.context != nullptr) info.user_data = options.context->all();
    const std::vector<Device*> devices = devices_of(args);
    std::vector<std::span<Buffer* const>> arguments;
    for (std::size_t i = 0; i < devices.size(); ++i)
        arguments.emplace_back(args.argument_lists[i], args.num_args);
    std::vector<LoadedExecutable::Run> runs = executable.run(devices, arguments, keep, info);
    std::vector<std::unique_ptr<Event>> events;
    if (args.device_complete_events != nullptr)
        for (const auto& run : runs) events.push_back(std::make_unique<Event>(run.done));
    // Nothing fails from here on: the caller owns everything, or nothing.
    for (std::size_t i = 0; i < devices.size(); ++i)
        for (std::size_t j = 0; j < runs[i].results.size(); ++j)
            args.output_lists[i][j] = runs[i].results[j].release();
    for (std::size_t i = 0; i < events.size(); ++i) args.device_complete_events[i] = events[i].release();
}

}  // namespace

void bind_loaded_executable(PJRT_Api& api) {
    api.PJRT_Client_Compile = slot<compile>;
    api.PJRT_Client_Load = slot<load>;
    api.PJRT_Executable_DeserializeAndLoad = slot<deserialise>;
    api.PJRT_LoadedExecutable_Destroy = slot<destroy>;
    api.PJRT_LoadedExecutable_GetExecutable = slot<get_executable>;
    api.PJRT_LoadedExecutable_AddressableDevices = slot<devices>;
    api.PJRT_LoadedExecutable_AddressableDeviceLogicalIds = slot<logical_ids>;
    api.PJRT_LoadedExecutable_GetDeviceAssignment = slot<assignment>;
    api.PJRT_LoadedExecutable_Delete = slot<remove>;
    api.PJRT_LoadedExecutable_IsDeleted = slot<is_removed>;
    api.PJRT_LoadedExecutable_Fingerprint = slot<fingerprint>;
    api.PJRT_LoadedExecutable_Execute = slot<execute>;
}

}  // namespace npu::pjrt
