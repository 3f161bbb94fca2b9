#include "pjrt/executable.h"

#include "cann/loader.h"
#include "cann/runtime.h"
#include "graph/wire.h"
#include "pjrt/abi.h"
#include "pjrt/callbacks.h"
#include "pjrt/compile_options.h"
#include "pjrt/layout.h"
#include "pjrt/plan.h"

namespace npu::pjrt {

Compiled::Side::Side(const std::vector<Tensor>& tensors, const std::vector<std::string>& sharding_protos)
    : count(tensors.size()) {
    for (const std::string& proto : sharding_protos) {
        shardings.push_back(proto.data());
        sharding_sizes.push_back(proto.size());
    }
    for (const Tensor& tensor : tensors) {
        const Shape& shape = tensor.shape;
        types.push_back(static_cast<uint32_t>(shape.type));
        dims.insert(dims.end(), shape.dims.begin(), shape.dims.end());
        ranks.push_back(shape.dims.size());
        memory_kinds.push_back(tensor.memory_kind.data());
        memory_kind_sizes.push_back(tensor.memory_kind.size());
        layouts.push_back(Layout::of_rank(shape.dims.size()));
        (tensor.memory_kind == kPinnedHost.name ? host_bytes : bytes) += shape.bytes;
    }
}

Compiled::Compiled(std::shared_ptr<const Program> program, std::string options)
    : program_(std::move(program)),
      options_(std::move(options)),
      parameters_(program_->parameters, program_->parameter_shardings),
      results_(program_->results, program_->result_shardings) {
    for (const auto& [name, value] : program_->costs) costs_.add(name, static_cast<float>(value));
}

std::size_t Compiled::code_bytes() const {
    std::size_t bytes = 0;
    for (const auto& model : program_->models) bytes += model.size();
    return bytes;
}

std::shared_ptr<const Compiled> Compiled::compile(const PJRT_Program& program, std::string_view options) {
    const std::string format = text(program.format, program.format_size);
    if (format != "mlir")
        throw unimplemented("the npu plugin compiles programs in the format mlir (StableHLO), not " +
                            graph::quoted(format));
    CompileOptions::read(options);  // refused before the work
    std::string bytes = pjrt::compile({program.code, program.code_size}, options);
    return std::make_shared<Compiled>(Program::read(std::move(bytes)), std::string(options));
}

std::shared_ptr<const Compiled> Compiled::load(std::string_view bytes, std::string_view options) {
    const auto program = Program::read(std::string(bytes));
    const auto same = [&](const std::string& found, const std::string& here, const char* what) {
        if (!found.empty() && found != here)
            throw precondition("the executable was compiled for " + std::string(what) +
                               graph::printable(found) + ", here it is " + what + here +
                               ": compile the program again");
    };
    same(program->soc, cann::soc_name(), "");
    same(program->cann_version, cann::version(), "CANN ");
    std::string kept(options.empty() ? std::string_view(program->compile_options) : options);
    return std::make_shared<Compiled>(program, std::move(kept));
}

namespace {

const Compiled& compiled(Executable* handle) { return *need(handle, "executable"); }

void destroy(PJRT_Executable_Destroy_Args& args) { delete args.executable; }

void name(PJRT_Executable_Name_Args& args) {
    const std::string& name = compiled(args.executable).program()->name;
    args.executable_name = name.data();
    args.executable_name_size = name.size();
}

void num_replicas(PJRT_Executable_NumReplicas_Args& args) {
    args.num_replicas = compiled(args.executable).program()->num_replicas;
}

void num_partitions(PJRT_Executable_NumPartitions_Args& args) {
    args.num_partitions = compiled(args.executable).program()->num_partitions;
}

void num_outputs(PJRT_Executable_NumOutputs_Args& args) {
    args.num_outputs = compiled(args.executable).results().count;
}

void code_size(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) {
    args.size_in_bytes = static_cast<int64_t>(compiled(args.executable).code_bytes());
}

void cost_analysis(PJRT_Executable_GetCostAnalysis_Args& args) {
    const NamedValues& costs = compiled(args.executable).costs();
    args.properties = costs.data();
    args.num_properties = costs.size();
}

void output_types(PJRT_Executable_OutputElementTypes_Args& args) {
    const Compiled::Side& results = compiled(args.executable).results();
    args.output_types = const_cast<uint32_t*>(results.types.data());  // as the API has it; nobody writes
    args.num_output_types = results.count;
}

void output_dimensions(PJRT_Executable_OutputDimensions_Args& args) {
    const Compiled::Side& results = compiled(args.executable).results();
    args.num_outputs = results.count;
    args.dims = results.dims.data();
    args.dim_sizes = results.ranks.data();
}

void output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
    const Compiled::Side& results = compiled(args.executable).results();
    args.num_outputs = results.count;
    args.memory_kinds = results.memory_kinds.data();
    args.memory_kind_sizes = results.memory_kind_sizes.data();
}

void parameter_memory_kinds(PJRT_Executable_ParameterMemoryKinds_Args& args) {
    const Compiled::Side& parameters = compiled(args.executable).parameters();
    args.num_parameters = parameters.count;
    args.memory_kinds = parameters.memory_kinds.data();
    args.memory_kind_sizes = parameters.memory_kind_sizes.data();
}

// Asked twice: for the size, then with memory for the text.
void optimized_program(PJRT_Executable_OptimizedProgram_Args& args) {
    PJRT_Program& out = need(args.program, "program");
    const std::string& text = compiled(args.executable).program()->optimized_program;
    if (text.empty()) throw unimplemented("the compiler kept no text of this program");
    static constexpr char format[] = "mlir";
    out.format = format;
    out.format_size = sizeof format - 1;
    if (out.code == nullptr) {
        out.code_size = text.size();
        return;
    }
    if (out.code_size < text.size()) throw invalid("the memory for the program's text is too small");
    std::memcpy(out.code, text.data(), text.size());
}

void serialise(PJRT_Executable_Serialize_Args& args) {
    auto bytes = std::make_unique<Bytes>(compiled(args.executable).serialise());
    args.serialized_bytes = bytes->text.data();
    args.serialized_bytes_size = bytes->text.size();
    args.serialized_executable_deleter = delete_bytes;
    args.serialized_executable = bytes.release();
}

void fingerprint(PJRT_Executable_Fingerprint_Args& args) {
    const std::string& text = compiled(args.executable).program()->fingerprint;
    args.executable_fingerprint = text.data();
    args.executable_fingerprint_size = text.size();
}

void compile_options(PJRT_Executable_GetCompileOptions_Args& args) {
    auto bytes = std::make_unique<Bytes>(compiled(args.executable).options());
    args.serialized_bytes = bytes->text.data();
    args.serialized_bytes_size = bytes->text.size();
    args.serialized_compile_options_deleter = delete_bytes;
    args.serialized_compile_options = bytes.release();
}

std::size_t aliased_bytes(const Program& program) {
    std::size_t bytes = 0;
    for (const Alias& alias : program.aliases) bytes += program.results[alias.result].shape.bytes;
    return bytes;
}

void memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
    const Compiled& asked = compiled(args.executable);
    const auto size = [](std::size_t bytes) { return static_cast<int64_t>(bytes); };
    args.generated_code_size_in_bytes = size(asked.code_bytes());
    args.argument_size_in_bytes = size(asked.parameters().bytes);
    args.output_size_in_bytes = size(asked.results().bytes);
    args.alias_size_in_bytes = size(aliased_bytes(*asked.program()));
    args.temp_size_in_bytes = 0;
    for (const auto& model : asked.program()->models) args.temp_size_in_bytes += size(work_bytes(model));
    args.host_argument_size_in_bytes = size(asked.parameters().host_bytes);
    args.host_output_size_in_bytes = size(asked.results().host_bytes);
    // No memory is shared: a donated parameter's is free for the next run, not for this one.
    args.peak_memory_in_bytes =
        args.argument_size_in_bytes + args.output_size_in_bytes + args.temp_size_in_bytes;
    args.total_size_in_bytes = args.peak_memory_in_bytes + args.generated_code_size_in_bytes;
    args.total_allocation_bytes = args.peak_memory_in_bytes;
    args.peak_unpadded_heap_bytes = args.peak_memory_in_bytes;
}

void compile_only(PJRT_Compile_Args& args) {
    need(args.topology, "topology");
    args.executable = new Executable(
        Compiled::compile(need(args.program, "program"), {args.compile_options, args.compile_options_size}));
}

}  // namespace

void bind_executable(PJRT_Api& api) {
    api.PJRT_Executable_Destroy = slot<destroy>;
    api.PJRT_Executable_Name = slot<name>;
    api.PJRT_Executable_NumReplicas = slot<num_replicas>;
    api.PJRT_Executable_NumPartitions = slot<num_partitions>;
    api.PJRT_Executable_NumOutputs = slot<num_outputs>;
    api.PJRT_Executable_SizeOfGeneratedCodeInBytes = slot<code_size>;
    api.PJRT_Executable_GetCostAnalysis = slot<cost_analysis>;
    api.PJRT_Executable_OutputElementTypes = slot<output_types>;
    api.PJRT_Executable_OutputDimensions = slot<output_dimensions>;
    api.PJRT_Executable_OutputMemoryKinds = slot<output_memory_kinds>;
    api.PJRT_Executable_ParameterMemoryKinds = slot<parameter_memory_kinds>;
    api.PJRT_Executable_OptimizedProgram = slot<optimized_program>;
    api.PJRT_Executable_Serialize = slot<serialise>;
    api.PJRT_Executable_Fingerprint = slot<fingerprint>;
    api.PJRT_Executable_GetCompileOptions = slot<compile_options>;
    api.PJRT_Executable_GetCompiledMemoryStats = slot<memory_stats>;
    api.PJRT_Compile = slot<compile_only>;
}

}  // namespace npu::pjrt
