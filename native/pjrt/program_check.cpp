#include "pjrt/program_check.h"

#include <set>

#include "graph/wire.h"

namespace npu::pjrt {
namespace {

std::string at(const Step& step) {
    return step.location.empty() ? "" : " (" + graph::printable(step.location) + ")";
}

// The checks of one block. Slots are written once and before they are read.
class BlockCheck {
  public:
    BlockCheck(const Program& program, const Block& block) : program_(program), block_(block) {}

    void run() {
        written_.assign(block_.slots.size(), false);
        for (uint32_t slot : block_.inputs) write(slot, "an input");
        for (const Step& step : block_.steps) {
            step_ = &step;
            std::visit([&](const auto& work) { visit(work); }, step.work);
        }
        step_ = nullptr;
        for (uint32_t slot : block_.outputs) read(slot);
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw invalid("the program makes no sense" + (step_ == nullptr ? "" : at(*step_)) + ": " + why);
    }
    void in_range(uint32_t slot) const {
        if (slot >= block_.slots.size())
            refuse("it names slot " + std::to_string(slot) + " of " + std::to_string(block_.slots.size()));
    }
    void write(uint32_t slot, const char* what) {
        in_range(slot);
        if (written_[slot]) refuse(std::string(what) + " writes slot " + std::to_string(slot) + " again");
        written_[slot] = true;
    }
    void read(uint32_t slot) const {
        in_range(slot);
        if (!written_[slot]) refuse("slot " + std::to_string(slot) + " is read before it is written");
    }
    void read_all(const Slots& slots) const {
        for (uint32_t slot : slots) read(slot);
    }
    void write_all(const Slots& slots) {
        for (uint32_t slot : slots) write(slot, "a step");
    }

    void visit(const std::monostate&) const { refuse("a step is empty"); }
    void visit(const RunModel& run) {
        if (run.model >= program_.models.size())
            refuse("it runs model " + std::to_string(run.model) + " of " +
                   std::to_string(program_.models.size()));
        read_all(run.inputs);
        write_all(run.outputs);
    }
    void visit(const HostCall& call) {
        if (call.api != "python" && call.api != "ffi")
            refuse("a host call's api is python or ffi, not " + graph::quoted(call.api));
        read_all(call.inputs);
        write_all(call.outputs);
        if (!call.aliases.empty() && call.api != "ffi") refuse("only ffi calls share memory");
        for (const Alias& alias : call.aliases) {
            if (alias.result >= call.outputs.size() || alias.parameter >= call.inputs.size())
                refuse("a host call shares memory that it does not have");
            if (!(block_.slots[call.outputs[alias.result]].shape ==
                  block_.slots[call.inputs[alias.parameter]].shape))
                refuse("a host call shares memory between a result and an input of other types");
        }
    }
    void visit(const While& loop) {
        read_all(loop.inputs);
        if (loop.condition->outputs.size() != 1 || output(*loop.condition, 0).text() != "pred[]")
            refuse("a loop's condition gives one boolean");
        agree(loop.inputs, loop.condition->inputs, *loop.condition, "the inputs of a loop's condition");
        agree(loop.inputs, loop.body->inputs, *loop.body, "the inputs of a loop's body");
        agree(loop.inputs, loop.body->outputs, *loop.body, "the results of a loop's body");
        BlockCheck(program_, *loop.condition).run();
        BlockCheck(program_, *loop.body).run();
        write_all(loop.outputs);
        same(loop.inputs, loop.outputs, "the results of a loop");
    }
    void visit(const Case& branch) {
        read(branch.index);
        const Shape& index = block_.slots[branch.index].shape;
        if (index.text() != "s32[]" && index.text() != "pred[]")
            refuse("the index of a case is an s32 or a boolean, not " + index.text());
        read_all(branch.inputs);
        write_all(branch.outputs);
        for (const auto& each : branch.branches) {
            agree(branch.inputs, each->inputs, *each, "the inputs of a branch");
            agree(branch.outputs, each->outputs, *each, "the results of a branch");
            BlockCheck(program_, *each).run();
        }
    }

    const Shape& output(const Block& block, std::size_t index) const {
        return shape(block, block.outputs[index]);
    }
    const Shape& shape(const Block& block, uint32_t slot) const {
        if (slot >= block.slots.size())
            refuse("a block names slot " + std::to_string(slot) + " beyond its end");
        return block.slots[slot].shape;
    }
    void agree(const Slots& here, const Slots& there, const Block& block, const char* what) const {
        if (here.size() != there.size())
            refuse(std::string(what) + " are " + std::to_string(there.size()) + ", not " +
                   std::to_string(here.size()));
        for (std::size_t i = 0; i < here.size(); ++i)
            if (!(block_.slots[here[i]].shape == shape(block, there[i])))
                refuse(std::string(what) + " differ at " + std::to_string(i));
    }
    void same(const Slots& some, const Slots& others, const char* what) const {
        if (some.size() != others.size()) refuse(std::string(what) + " are not as many as its inputs");
        for (std::size_t i = 0; i < some.size(); ++i)
            if (!(block_.slots[some[i]].shape == block_.slots[others[i]].shape))
                refuse(std::string(what) + " differ from its inputs at " + std::to_string(i));
    }

    const Program& program_;
    const Block& block_;
    const Step* step_ = nullptr;
    std::vector<bool> written_;
};

void check_ends(const std::vector<Tensor>& declared, const Slots& slots, const Block& body,
                const char* what) {
    if (declared.size() != slots.size())
        throw invalid("the program declares " + std::to_string(declared.size()) + " " + what +
                      "s and its body has " + std::to_string(slots.size()));
    for (std::size_t i = 0; i < slots.size(); ++i)
        if (slots[i] >= body.slots.size() || !(body.slots[slots[i]].shape == declared[i].shape))
            throw invalid(std::string("the program's ") + what + " " + std::to_string(i) +
                          " is another one in its body");
}

// The place of the device comes behind the caller's own parameters.
void check_parameters(const Program& program) {
    std::vector<Tensor> declared = program.parameters;
    if (program.takes_place)
        declared.push_back({Shape::of(PJRT_Buffer_Type_U32, std::vector<int64_t>{2}), ""});
    check_ends(declared, program.body->inputs, *program.body, "parameter");
}

void check(const Program& program, const Group& group) {
    const std::size_t places = std::size_t{program.num_replicas} * program.num_partitions;
    std::set<uint32_t> seen;
    std::size_t count = 0;
    for (const Slots& members : group.members) {
        if (members.empty()) throw invalid("the program's group " + group.name + " has an empty part");
        seen.insert(members.begin(), members.end());
        count += members.size();
    }
    if (group.name.empty() || seen.size() != count || count != places || *seen.rbegin() + 1 != places)
        throw invalid("the program's group " + group.name + " has not each of its " + std::to_string(places) +
                      " places once");
    if (program.assignment.size() != places)
        throw invalid("the program has groups of devices, but does not say which devices they are");
}

}  // namespace

void check(const Program& program) {
    if (!program.body) throw invalid("the program has no body");
    if (program.num_replicas == 0 || program.num_partitions == 0)
        throw invalid("the program is for no device at all");
    check_parameters(program);
    for (const Group& group : program.groups) check(program, group);
    check_ends(program.results, program.body->outputs, *program.body, "result");
    BlockCheck(program, *program.body).run();
    std::set<uint32_t> seen;
    for (const Alias& alias : program.aliases) {
        if (alias.result >= program.results.size() || alias.parameter >= program.parameters.size())
            throw invalid("the program aliases a result or parameter that it does not have");
        if (!seen.insert(alias.parameter).second)
            throw invalid("the program gives parameter " + std::to_string(alias.parameter) +
                          " to two of its results");
    }
    const auto shardings = [](std::size_t count, std::size_t of, const char* what) {
        if (count != 0 && count != of)
            throw invalid(std::string("the program has not one sharding for each ") + what);
    };
    shardings(program.parameter_shardings.size(), program.parameters.size(), "parameter");
    shardings(program.result_shardings.size(), program.results.size(), "result");
}

}  // namespace npu::pjrt
