// The graph engine as its doors see it (../doors): no ATen, no protobuf. Implemented in libnpu_emulator_ge,
// which is loaded when the first graph is compiled, so that ACL stays usable without torch.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "cann/acl.h"
#include "graph/model.h"

namespace npu::ge {

/// An input or output of a run. dims are the actual ones. Memory of the device unless `host`.
struct Buffer {
    void* data = nullptr;
    std::size_t size = 0;  ///< bytes of memory, at least those of the tensor
    graph::TensorType type;
    bool host = false;
};

struct Summary {
    bool is_static = false;
    std::vector<graph::TensorType> inputs, outputs;
    std::vector<std::string> input_names, output_names;
    std::size_t workspace = 0;  ///< bytes of feature memory that a static graph needs
    std::size_t constants = 0;  ///< bytes of constants, which the engine keeps itself
    std::size_t steps = 0;      ///< operators that are left to run
    std::size_t fused = 0;      ///< of them, operators inside regions that AutoFuse made
    std::size_t regions = 0;
    /// Pairs (input, output) that share memory: an operator writes into the graph's input (Assign,
    /// ScatterUpdate).
    std::vector<std::pair<uint32_t, uint32_t>> aliases;
};

/// Memory that a run may use.
struct RunMemory {
    void* workspace = nullptr;  ///< null: the engine's own
    /// Memory of the device for an output without one; null result: there is none. Empty: aclrtMalloc, freed
    /// by the caller.
    std::function<void*(std::size_t bytes)> allocate = {};
};

/// A compiled graph. Immutable; may be run from several threads and on several streams.
class Executable {
  public:
    virtual ~Executable() = default;
    virtual const Summary& summary() const = 0;

    /// Static graphs: puts the work on the stream and returns. memory.workspace has at least
    /// summary().workspace bytes of the device that stay until the stream got there. Dynamic graphs: returns
    /// when the work is done, and fills in every output's type. Outputs without memory are allocated.
    /// Non-zero: nothing, or not all, was queued; the sentence is in aclGetRecentErrMsg.
    virtual aclError run(aclrtStream stream, std::span<const Buffer> inputs, std::span<Buffer> outputs,
                         const RunMemory& memory) const = 0;
};

struct CompileOptions {
    bool autofuse = false;
    bool fuse_reductions = false, fuse_movement = false;  ///< by --autofuse_enable_pass
};

/// What AUTOFUSE_FLAGS asks for ("--enable_autofuse=true;--autofuse_enable_pass=reduce,concat"), as CANN
/// reads it: process-wide, at each compilation. Throws graph::GraphError for a flag that CANN does not have.
CompileOptions options_from_environment();

class Engine {
  public:
    virtual ~Engine() = default;
    /// Throws graph::GraphError, which names node and operator.
    virtual std::shared_ptr<const Executable> compile(graph::Model model, const CompileOptions& options) = 0;
};

inline constexpr char kEngineLibrary[] = "libnpu_emulator_ge.so";
inline constexpr char kEngineFunction[] = "npu_emulator_ge_engine";
using EngineFunction = Engine*();

#pragma GCC visibility push(default)
/// The engine of the process, loaded at the first call. Exported by libascendcl.
/// Throws graph::GraphError where the library or the torch that it computes with cannot be loaded.
Engine& engine();
#pragma GCC visibility pop

}  // namespace npu::ge
