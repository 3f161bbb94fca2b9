// Builds an offline model (OM) from a serialised graph, with the graph engine's compiler: what
// GraphSession::load takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace npu::cann {

/// Options of aclgrphBuildModel by CANN's names ("ge.exec.precision_mode" ...).
using BuildOptions = std::map<std::string, std::string>;

/// The bytes of an OM. `graph`: a serialised ge.proto.ModelDef. `autofuse_flags`: AUTOFUSE_FLAGS during this
/// build; nothing: as the environment says. CANN reads it from the environment of the process, so builds run
/// one at a time. Throws Error (Family::graph), whose detail is the compiler's own sentence.
std::string build_model(std::span<const std::byte> graph, const std::string& name,
                        const BuildOptions& options, const std::optional<std::string>& autofuse_flags);

/// Ends the compiler, which must be done before the process ends; nothing where it was never started.
void finish_building() noexcept;

/// The graph engine's last error, empty where it has none or cannot say.
std::string graph_message();

}  // namespace npu::cann
