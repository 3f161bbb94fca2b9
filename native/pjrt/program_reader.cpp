#include <charconv>
#include <cmath>
#include <functional>

#include "pjrt/layout.h"
#include "pjrt/program_check.h"
#include "pjrt/wire.h"

namespace npu::pjrt {
namespace {

using graph::Bytes;
using graph::Field;

constexpr int64_t kFormat = 1;
constexpr uint32_t kCompileOptions = 100;  // beyond the compiler's own fields
constexpr int kDeepest = 64;
constexpr std::size_t kMostSlots = 1 << 24;

/// What to do with each field of a message, by its number; others are skipped, as protobuf has it.
using Rows = std::vector<std::pair<uint32_t, std::function<void(const Field&)>>>;

void read_message(Bytes bytes, const Rows& rows) {
    graph::Message message(bytes);
    for (Field field; message.next(field);)
        for (const auto& [number, take] : rows)
            if (number == field.number) take(field);
}

auto into(std::string& out) {
    return [&out](const Field& field) { out = field.text(); };
}

auto into(uint32_t& out) {
    return [&out](const Field& field) {
        const int64_t value = field.integer();
        if (value < 0 || value > INT32_MAX) throw invalid("the program holds an impossible number");
        out = static_cast<uint32_t>(value);
    };
}

auto into(bool& out) {
    return [&out](const Field& field) { out = field.integer() != 0; };
}

auto into(Slots& out) {
    return [&out](const Field& field) {
        std::vector<int64_t> values;
        field.append(values);
        for (int64_t value : values) {
            if (value < 0 || value > INT32_MAX) throw invalid("the program holds an impossible slot number");
            out.push_back(static_cast<uint32_t>(value));
        }
    };
}

auto into(std::vector<std::string>& out) {
    return [&out](const Field& field) { out.emplace_back(field.text()); };
}

Tensor read_tensor(Bytes bytes) {
    int64_t type = 0;
    std::vector<int64_t> dims;
    Tensor tensor;
    read_message(bytes, {{1, [&](const Field& f) { type = f.integer(); }},
                         {2, [&](const Field& f) { f.append(dims); }},
                         {3, into(tensor.memory_kind)}});
    if (type < 0 || type > INT32_MAX || !known_type(static_cast<int>(type)))
        throw invalid("the program holds a tensor of the unknown element type " + std::to_string(type));
    if (dims.size() > kMostDimensions)
        throw invalid("the program holds a tensor of " + std::to_string(dims.size()) + " dimensions");
    tensor.shape = Shape::of(static_cast<int>(type), dims);
    if (tensor.memory_kind.empty()) tensor.memory_kind = kDeviceMemory.name;
    if (tensor.memory_kind != kDeviceMemory.name && tensor.memory_kind != kPinnedHost.name)
        throw invalid("the program wants memory of the kind " + graph::quoted(tensor.memory_kind) +
                      "; npu devices have device and pinned_host");
    return tensor;
}

auto into(std::vector<Tensor>& out) {
    return [&out](const Field& field) {
        if (out.size() >= kMostSlots) throw invalid("the program has too many tensors");
        out.push_back(read_tensor(field.message()));
    };
}

std::unique_ptr<Block> read_block(Bytes bytes, int depth);

RunModel read_run(Bytes bytes) {
    RunModel run;
    read_message(bytes, {{1, into(run.model)}, {2, into(run.inputs)}, {3, into(run.outputs)}});
    return run;
}

Alias read_alias(Bytes bytes) {
    Alias alias;
    read_message(bytes, {{1, into(alias.result)}, {2, into(alias.parameter)}, {3, into(alias.must)}});
    return alias;
}

HostCall read_host(Bytes bytes) {
    HostCall call;
    read_message(bytes, {{1, into(call.target)},
                         {2, into(call.attributes)},
                         {3, into(call.inputs)},
                         {4, into(call.outputs)},
                         {5, into(call.has_side_effect)},
                         {6, into(call.api)},
                         {7, [&](const Field& f) { call.aliases.push_back(read_alias(f.message())); }}});
    return call;
}

While read_while(Bytes bytes, int depth) {
    While loop;
    read_message(bytes, {{1, [&](const Field& f) { loop.condition = read_block(f.message(), depth); }},
                         {2, [&](const Field& f) { loop.body = read_block(f.message(), depth); }},
                         {3, into(loop.inputs)},
                         {4, into(loop.outputs)}});
    if (!loop.condition || !loop.body) throw invalid("the program holds a loop without condition or body");
    return loop;
}

Case read_case(Bytes bytes, int depth) {
    Case branch;
    read_message(bytes,
                 {{1, into(branch.index)},
                  {2, [&](const Field& f) { branch.branches.push_back(read_block(f.message(), depth)); }},
                  {3, into(branch.inputs)},
                  {4, into(branch.outputs)}});
    if (branch.branches.empty()) throw invalid("the program holds a case without branches");
    return branch;
}

Step read_step(Bytes bytes, int depth) {
    Step step;
    read_message(bytes, {{1, into(step.location)},
                         {2, [&](const Field& f) { step.work = read_run(f.message()); }},
                         {3, [&](const Field& f) { step.work = read_host(f.message()); }},
                         {4, [&](const Field& f) { step.work = read_while(f.message(), depth); }},
                         {5, [&](const Field& f) { step.work = read_case(f.message(), depth); }}});
    if (std::holds_alternative<std::monostate>(step.work))
        throw invalid("the program holds a step of a kind that this plugin does not know");
    return step;
}

std::unique_ptr<Block> read_block(Bytes bytes, int depth) {
    if (depth > kDeepest) throw invalid("the program's blocks are nested too deeply");
    auto block = std::make_unique<Block>();
    read_message(bytes,
                 {{1, into(block->slots)},
                  {2, into(block->inputs)},
                  {3, into(block->outputs)},
                  {4, [&](const Field& f) { block->steps.push_back(read_step(f.message(), depth + 1)); }}});
    return block;
}

Group read_group(Bytes bytes) {
    Group group;
    read_message(bytes, {{1, into(group.name)}, {2, [&](const Field& f) {
                                                     group.members.emplace_back();
                                                     read_message(f.message(),
                                                                  {{1, into(group.members.back())}});
                                                 }}});
    return group;
}

std::pair<std::string, double> read_cost(Bytes bytes) {
    std::string name, value;
    read_message(bytes, {{1, into(name)}, {2, into(value)}});
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(number))
        throw invalid("the program holds a cost that is no number: " + graph::quoted(value));
    return {name, number};
}

}  // namespace

std::shared_ptr<const Program> Program::read(std::string bytes) {
    auto program = std::make_shared<Program>();
    program->bytes = std::move(bytes);
    int64_t format = 0;
    try {
        read_message(as_bytes(program->bytes),
                     {{1, [&](const Field& f) { format = f.integer(); }},
                      {2, into(program->name)},
                      {3, into(program->fingerprint)},
                      {4, into(program->num_replicas)},
                      {5, into(program->num_partitions)},
                      {6, into(program->soc)},
                      {7, into(program->cann_version)},
                      {8, into(program->parameters)},
                      {9, into(program->results)},
                      {10, [&](const Field& f) { program->aliases.push_back(read_alias(f.message())); }},
                      {11, [&](const Field& f) { program->models.push_back(f.message()); }},
                      {12, [&](const Field& f) { program->body = read_block(f.message(), 1); }},
                      {13, into(program->optimized_program)},
                      {14, [&](const Field& f) { program->costs.push_back(read_cost(f.message())); }},
                      {15, into(program->parameter_shardings)},
                      {16, into(program->result_shardings)},
                      {17, [&](const Field& f) { program->groups.push_back(read_group(f.message())); }},
                      {18, [&](const Field& f) { f.append(program->assignment); }},
                      {19, into(program->takes_place)},
                      {kCompileOptions, into(program->compile_options)}});
    } catch (const graph::GraphError&) {
        throw invalid("these bytes are no program of the npu plugin, or they are cut off");
    }
    if (format != kFormat)
        throw invalid("these bytes are no program of the npu plugin, or one of another format (" +
                      std::to_string(format) + ", this plugin reads " + std::to_string(kFormat) + ")");
    check(*program);
    program->uses_host = program->body->uses_host();
    return program;
}

std::string Program::serialise(const std::string& options) const {
    std::string out = bytes;
    if (options != compile_options) put_bytes(out, kCompileOptions, options);  // the last one counts
    return out;
}

bool Block::uses_host() const {
    for (const Step& step : steps)
        if (!std::holds_alternative<RunModel>(step.work)) return true;
    return false;
}

}  // namespace npu::pjrt
