// Compiled graphs, and the engine that makes them.
#include <ATen/Parallel.h>

#include <list>
#include <mutex>
#include <unordered_map>

#include "ge/engine/dynamic_run.h"
#include "ge/engine/engine.h"
#include "ge/engine/exchange.h"
#include "ge/engine/fuse.h"
#include "ge/engine/lower.h"
#include "ge/engine/placement.h"
#include "ge/engine/plan.h"
#include "ge/engine/split.h"
#include "ge/engine/static_run.h"
#include "kernels/scope.h"
#include "runtime/launch.h"

namespace npu::ge {
namespace {

constexpr std::size_t kKeptBindings = 32;  // of one graph: sets of addresses that come back

/// A program bound to addresses; shared by the tasks that are under way.
struct Binding {
    std::shared_ptr<const Program> program;  ///< commands refer to its steps
    std::vector<at::Tensor> kept;            ///< copies of inputs that lived on the host
    std::vector<Stretch> stretches;
};

/// About how many bytes a run goes through, so that small graphs run without a change of threads. What reads
/// an element more than once counts for more; what may take any time, for too much.
std::size_t work_of(const Program& program) {
    constexpr std::size_t kStep = 256, kRereads = 8;
    std::size_t sum = 0;
    for (const Step& step : program.steps) {
        if (step.kind == Kind::view) continue;
        if (step.kind != Kind::row) return SIZE_MAX;
        std::size_t bytes = kStep;
        for (const auto* numbers : {&step.inputs, &step.outputs})
            for (const int number : *numbers) {
                if (number < 0) continue;
                const TensorType& type = program.values[number].type;
                bytes += type.elements() * graph::element_size(type.dtype);
            }
        sum += step.kernel->elementwise ? bytes : bytes * kRereads;
    }
    return sum;
}

class StretchTask final : public emulator::Task {
  public:
    StretchTask(std::shared_ptr<const Binding> binding, std::size_t stretch, std::size_t work)
        : binding_(std::move(binding)), stretch_(stretch), work_(work) {}
    std::size_t work() const override { return work_; }
    void run() override {
        const emulator::AtenScope scope;
        for (const auto& command : binding_->stretches[stretch_].commands) command();
    }
    const char* name() const override { return "a compiled graph"; }

  private:
    std::shared_ptr<const Binding> binding_;
    std::size_t stretch_, work_;
};

/// A stretch of a dynamic graph, whose caller waits for it.
class DynamicTask final : public emulator::Task {
  public:
    DynamicTask(Interpreter& interpreter, const Step*& stopped)
        : interpreter_(interpreter), stopped_(stopped) {}
    void run() override {
        const emulator::AtenScope scope;
        stopped_ = interpreter_.advance();
    }
    const char* name() const override { return "a compiled graph of dynamic shape"; }

  private:
    Interpreter& interpreter_;
    const Step*& stopped_;
};

/// Memory of the device that the engine allocates itself, one piece a stream: two runs may be under way at a
/// time.
class Workspaces {
  public:
    explicit Workspaces(std::size_t size) : size_(size) {}
    ~Workspaces() {
        for (const auto& [stream, memory] : memory_) aclrtFree(memory);
    }
    Workspaces(const Workspaces&) = delete;
    Workspaces& operator=(const Workspaces&) = delete;

    aclError get(aclrtStream stream, void** memory) {
        *memory = nullptr;
        if (size_ == 0) return ACL_SUCCESS;
        std::lock_guard lock(mutex_);
        void*& found = memory_[stream];
        if (found == nullptr) {
            if (const aclError code = aclrtMalloc(&found, size_, ACL_MEM_MALLOC_HUGE_FIRST);
                code != ACL_SUCCESS) {
                memory_.erase(stream);
                return code;
            }
        }
        *memory = found;
        return ACL_SUCCESS;
    }

  private:
    const std::size_t size_;
    std::mutex mutex_;
    std::unordered_map<aclrtStream, void*> memory_;
};

at::Tensor tensor_on(const Buffer& buffer, const std::string& what) {
    if (!buffer.type.is_static())
        throw graph::GraphError(what + " has the unknown shape " + buffer.type.text());
    const std::size_t wanted = buffer.type.elements() * graph::element_size(buffer.type.dtype);
    if (buffer.size < wanted)
        throw graph::GraphError(what + " of type " + buffer.type.text() + " takes " + std::to_string(wanted) +
                                " bytes, its memory has " + std::to_string(buffer.size));
    if (buffer.data == nullptr && wanted > 0) throw graph::GraphError(what + " has no memory");
    return at::for_blob(buffer.data, buffer.type.dims)
        .options(at::TensorOptions().dtype(scalar_type(buffer.type.dtype)))
        .make_tensor();
}

/// Whether an actual type is one that the graph was compiled for.
void check_type(const TensorType& actual, const TensorType& compiled, const std::string& what) {
    bool fits = actual.dtype == compiled.dtype;
    if (compiled.ranked) {
        fits = fits && actual.dims.size() == compiled.dims.size();
        for (std::size_t i = 0; fits && i < actual.dims.size(); ++i)
            fits = compiled.dims[i] == graph::kUnknown || compiled.dims[i] == actual.dims[i];
    }
    if (!fits)
        throw graph::GraphError(what + " has the type " + actual.text() + ", the graph was compiled for " +
                                compiled.text());
}

class CompiledGraph final : public Executable {
  public:
    CompiledGraph(std::shared_ptr<const Program> program, Summary summary)
        : program_(std::move(program)),
          work_(program_->is_static ? work_of(*program_) : SIZE_MAX),
          summary_(std::move(summary)),
          workspaces_(summary_.workspace) {}

    const Summary& summary() const override { return summary_; }

    aclError run(aclrtStream stream, std::span<const Buffer> inputs, std::span<Buffer> outputs,
                 const RunMemory& memory) const override {
        const emulator::AtenScope scope;
        try {
            check(inputs, outputs.size());
            if (program_->is_static) return run_static(stream, inputs, outputs, memory);
            return run_dynamic(stream, inputs, outputs, memory);
        } catch (const graph::GraphError& error) {
            return emulator::fail(ACL_ERROR_INVALID_PARAM, error.what());
        } catch (const std::exception& error) {
            return emulator::fail(ACL_ERROR_INTERNAL_ERROR, std::string("running a graph: ") + error.what());
        }
    }

  private:
    using Key = std::vector<const void*>;

    void check(std::span<const Buffer> inputs, std::size_t outputs) const {
        if (inputs.size() != summary_.inputs.size())
            throw graph::GraphError("the graph takes " + std::to_string(summary_.inputs.size()) +
                                    " inputs, was given " + std::to_string(inputs.size()));
        if (outputs != summary_.outputs.size())
            throw graph::GraphError("the graph has " + std::to_string(summary_.outputs.size()) +
                                    " outputs, room was given for " + std::to_string(outputs));
        for (std::size_t i = 0; i < inputs.size(); ++i)
            check_type(inputs[i].type, summary_.inputs[i], "input " + std::to_string(i));
    }

    std::vector<at::Tensor> input_tensors(std::span<const Buffer> inputs) const {
        std::vector<at::Tensor> tensors;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            tensors.push_back(tensor_on(inputs[i], "input " + std::to_string(i)));
            if (inputs[i].host)
                tensors.back() = tensors.back().clone();  // its owner may free it when the call returns
        }
        return tensors;
    }

    aclError run_static(aclrtStream stream, std::span<const Buffer> inputs, std::span<Buffer> outputs,
                        const RunMemory& memory) const {
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            outputs[i].type.dtype = summary_.outputs[i].dtype;
            if (outputs[i].data == nullptr) outputs[i].type = summary_.outputs[i];
            if (const aclError code = provide(outputs[i], memory); code != ACL_SUCCESS) return code;
        }
        void* workspace = memory.workspace;
        if (workspace == nullptr) {
            if (const aclError code = workspaces_.get(stream, &workspace); code != ACL_SUCCESS) return code;
        }
        const auto binding = bound(inputs, outputs, workspace);
        for (std::size_t i = 0; i < binding->stretches.size(); ++i) {
            const Stretch& stretch = binding->stretches[i];
            if (!stretch.commands.empty()) {
                if (const aclError code =
                        emulator::launch(stream, std::make_unique<StretchTask>(binding, i, work_));
                    code != ACL_SUCCESS)
                    return code;
            }
            if (!stretch.exchange) continue;
            if (reads_counts(*stretch.exchange->step)) {
                if (const aclError code = aclrtSynchronizeStream(stream); code != ACL_SUCCESS) return code;
            }
            start(*stretch.exchange, stream);
        }
        return ACL_SUCCESS;
    }

    /// The binding to these addresses, from those that are kept or made now.
    std::shared_ptr<const Binding> bound(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                                         void* workspace) const {
        Key key{workspace};
        bool on_device = true;
        for (const Buffer& buffer : inputs) {
            key.push_back(buffer.data);
            on_device = on_device && !buffer.host;
        }
        for (const Buffer& buffer : outputs) key.push_back(buffer.data);
        {
            std::lock_guard lock(mutex_);
            for (auto found = bindings_.begin(); on_device && found != bindings_.end(); ++found) {
                if (found->first != key) continue;
                bindings_.splice(bindings_.begin(), bindings_, found);
                return found->second;
            }
        }
        std::vector<at::Tensor> targets;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const std::string what = "output " + std::to_string(i);
            check_type(outputs[i].type, summary_.outputs[i], what);
            targets.push_back(tensor_on(outputs[i], what));
        }
        auto binding = std::make_shared<Binding>();
        binding->program = program_;
        binding->kept = input_tensors(inputs);
        binding->stretches = ge::bind(*program_, binding->kept, targets, static_cast<std::byte*>(workspace));
        if (on_device) {
            std::lock_guard lock(mutex_);
            bindings_.emplace_front(std::move(key), binding);
            if (bindings_.size() > kKeptBindings) bindings_.pop_back();
        }
        return binding;
    }

    aclError run_dynamic(aclrtStream stream, std::span<const Buffer> inputs, std::span<Buffer> outputs,
                         const RunMemory& memory) const {
        Interpreter interpreter(*program_, input_tensors(inputs));
        const Step* stopped = nullptr;
        do {
            if (const aclError code =
                    emulator::launch(stream, std::make_unique<DynamicTask>(interpreter, stopped));
                code != ACL_SUCCESS)
                return code;
            if (const aclError code = aclrtSynchronizeStream(stream); code != ACL_SUCCESS) return code;
            if (stopped == nullptr) break;
            Exchange exchange{stopped, interpreter.inputs(*stopped), interpreter.make_outputs(*stopped)};
            for (at::Tensor& input : exchange.inputs) input = input.contiguous();
            start(exchange, stream);
            if (const aclError code = aclrtSynchronizeStream(stream); code != ACL_SUCCESS) return code;
        } while (true);
        return hand_out(interpreter.results(), outputs, memory);
    }

    /// Memory for an output that has none.
    static aclError provide(Buffer& output, const RunMemory& memory) {
        if (output.data != nullptr) return ACL_SUCCESS;
        output.size =
            std::max<std::size_t>(output.type.elements() * graph::element_size(output.type.dtype), 1);
        if (!memory.allocate) return aclrtMalloc(&output.data, output.size, ACL_MEM_MALLOC_HUGE_FIRST);
        output.data = memory.allocate(output.size);
        if (output.data != nullptr) return ACL_SUCCESS;
        return emulator::fail(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "the graph's allocator has no " + std::to_string(output.size) + " bytes for an output");
    }

    aclError hand_out(const std::vector<at::Tensor>& results, std::span<Buffer> outputs,
                      const RunMemory& memory) const {
        std::vector<at::Tensor> dense;  // all read before any input's memory is written over
        for (const at::Tensor& result : results) dense.push_back(result.clone(at::MemoryFormat::Contiguous));
        for (std::size_t i = 0; i < dense.size(); ++i) {
            Buffer& output = outputs[i];
            output.type = {summary_.outputs[i].dtype, dense[i].sizes().vec()};
            if (const aclError code = provide(output, memory); code != ACL_SUCCESS) return code;
            tensor_on(output, "output " + std::to_string(i)).copy_(dense[i]);
        }
        return ACL_SUCCESS;
    }

    const std::shared_ptr<const Program> program_;
    const std::size_t work_;
    const Summary summary_;
    mutable Workspaces workspaces_;
    mutable std::mutex mutex_;
    mutable std::list<std::pair<Key, std::shared_ptr<const Binding>>> bindings_;  ///< the last used first
};

void count_steps(const Program& program, Summary& summary) {
    for (const Step& step : program.steps) {
        if (step.kind == Kind::split) {
            count_steps(*step.bodies.front(), summary);
            continue;
        }
        const bool fused = step.kind == Kind::fused;
        summary.regions += fused;
        summary.fused += fused ? step.bodies.front()->steps.size() : 0;
        summary.steps += fused ? step.bodies.front()->steps.size() : step.kind != Kind::view;
    }
}

Summary summarise(const Program& program) {
    Summary summary;
    summary.is_static = program.is_static;
    summary.workspace = program.workspace;
    for (const int input : program.inputs) {
        summary.inputs.push_back(program.values[input].type);
        summary.input_names.push_back(program.values[input].name);
    }
    for (std::size_t i = 0; i < program.results.size(); ++i) {
        const Value& value = program.values[program.results[i]];
        summary.outputs.push_back(value.type);
        summary.output_names.push_back(value.name);
        for (const Step& step : program.steps) {
            if (step.writes_input && program.values[step.outputs[0]].root == value.root)
                summary.aliases.emplace_back(program.values[value.root].index, i);
        }
    }
    for (const Value& value : program.values)
        if (value.constant.defined()) summary.constants += value.constant.nbytes();
    count_steps(program, summary);
    return summary;
}

struct Wanted {
    const CompileOptions& options;
    bool fusing;
    int64_t cores;  ///< 1: no step is split
};

/// Splits, fuses and plans the program and the bodies of its steps.
void optimise(Program& program, const Wanted& wanted) {
    split(program, wanted.cores);
    for (Step& step : program.steps) {
        for (auto& body : step.bodies) {
            auto own = std::make_shared<Program>(*body);
            optimise(*own, {wanted.options, wanted.fusing, step.kind == Kind::split ? 1 : wanted.cores});
            body = std::move(own);
        }
        if (step.kind == Kind::split) add_scratch(program, step);
    }
    if (wanted.fusing) fuse(program, wanted.options);
    place_outputs(program, wanted.fusing && wanted.options.fuse_movement);
    plan(program);
}

class GraphEngine final : public Engine {
  public:
    std::shared_ptr<const Executable> compile(graph::Model model, const CompileOptions& options) override {
        const emulator::AtenScope scope;
        graph::verify(model);
        Program program = lower(model);
        optimise(program, {options, options.autofuse && program.is_static,
                           program.is_static ? at::get_num_threads() : 1});
        Summary summary = summarise(program);
        return std::make_shared<CompiledGraph>(std::make_shared<const Program>(std::move(program)),
                                               std::move(summary));
    }
};

}  // namespace
}  // namespace npu::ge

extern "C" __attribute__((visibility("default"))) npu::ge::Engine* npu_emulator_ge_engine() {
    static npu::ge::GraphEngine instance;
    return &instance;
}
