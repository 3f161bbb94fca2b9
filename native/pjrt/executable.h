// What callers know as PJRT_Executable: a compiled program, on no device yet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pjrt/named_values.h"
#include "pjrt/program.h"

namespace npu::pjrt {

/// A program and what callers ask about it, in the form in which PJRT answers. Immutable, so thread-safe.
class Compiled {
  public:
    Compiled(std::shared_ptr<const Program> program, std::string options);
    /// Has the compiler make it. Throws Status.
    static std::shared_ptr<const Compiled> compile(const PJRT_Program& program, std::string_view options);
    /// Of serialise()'s bytes; `options` replace those in there unless empty. Throws Status: other bytes, or
    /// for another SoC or CANN.
    static std::shared_ptr<const Compiled> load(std::string_view bytes, std::string_view options);

    const std::shared_ptr<const Program>& program() const { return program_; }
    const std::string& options() const { return options_; }
    std::string serialise() const { return program_->serialise(options_); }

    /// One side of a program, flat.
    struct Side {
        Side(const std::vector<Tensor>& tensors, const std::vector<std::string>& sharding_protos);
        std::size_t count = 0, bytes = 0, host_bytes = 0;
        std::vector<uint32_t> types;
        std::vector<int64_t> dims;
        std::vector<std::size_t> ranks;
        std::vector<const char*> memory_kinds;
        std::vector<std::size_t> memory_kind_sizes;
        std::vector<Layout*> layouts;
        std::vector<const char*> shardings;  ///< serialised xla.OpSharding, or none at all
        std::vector<std::size_t> sharding_sizes;
    };
    const Side& parameters() const { return parameters_; }
    const Side& results() const { return results_; }
    const NamedValues& costs() const { return costs_; }
    std::size_t code_bytes() const;

  private:
    std::shared_ptr<const Program> program_;
    std::string options_;
    Side parameters_, results_;
    NamedValues costs_;
};

class Executable {
  public:
    explicit Executable(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
    const Compiled& operator*() const { return *compiled_; }
    const std::shared_ptr<const Compiled>& compiled() const { return compiled_; }

  private:
    std::shared_ptr<const Compiled> compiled_;
};

void bind_executable(PJRT_Api& api);

}  // namespace npu::pjrt
