// A compiled program as the compiler hands it over and as PJRT serialises it: message Program of package
// npu.program (README.md has the fields).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "pjrt/buffer.h"

namespace npu::pjrt {

struct Tensor {
    Shape shape;
    std::string memory_kind;  ///< "device", "pinned_host"
};

using Slots = std::vector<uint32_t>;  ///< numbers of a block's slots

struct RunModel {
    uint32_t model = 0;
    Slots inputs, outputs;
};

struct Alias {
    uint32_t result = 0, parameter = 0;
    bool must = false;
};

struct HostCall {
    std::string target, attributes, api;
    Slots inputs, outputs;
    bool has_side_effect = false;
    std::vector<Alias> aliases;  ///< by places among its outputs and inputs; only of the api "ffi"
};

struct Block;

struct While {
    std::unique_ptr<Block> condition, body;
    Slots inputs, outputs;
};

struct Case {
    uint32_t index = 0;
    std::vector<std::unique_ptr<Block>> branches;
    Slots inputs, outputs;
};

struct Step {
    std::string location;
    std::variant<std::monostate, RunModel, HostCall, While, Case> work;
};

struct Block {
    std::vector<Tensor> slots;
    Slots inputs, outputs;
    std::vector<Step> steps;

    /// Whether a step needs the host: then a run waits for the device in between.
    bool uses_host() const;
};

/// Devices that exchange data under one name: logical places (replica * num_partitions + partition), each in
/// one of the lists.
struct Group {
    std::string name;
    std::vector<Slots> members;
};

struct Program {
    std::string bytes;  ///< what it was read from
    std::string name, fingerprint, soc, cann_version, optimized_program;
    uint32_t num_replicas = 1, num_partitions = 1;
    std::vector<Tensor> parameters, results;
    std::vector<Alias> aliases;
    std::vector<std::span<const std::byte>> models;  ///< into `bytes`
    std::vector<std::pair<std::string, double>> costs;
    std::vector<std::string> parameter_shardings, result_shardings;  ///< all of them, or none
    std::string compile_options;  ///< of the compilation, where the program was serialised by this plugin
    std::vector<Group> groups;
    std::vector<int64_t> assignment;  ///< the device ids that the groups' names were made for
    bool takes_place = false;  ///< the body's last input is ui32[2]: replica and partition of the device
    std::unique_ptr<Block> body;
    bool uses_host = false;

    /// Reads and checks everything but the models: slots, types and counts fit each other. Throws Status.
    static std::shared_ptr<const Program> read(std::string bytes);
    /// What read() takes, with the options that it was compiled with.
    std::string serialise(const std::string& options) const;
};

}  // namespace npu::pjrt
