// Calls any aclnn operator by its name: arguments checked against CANN's prototype first, both phases, the
// workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cann/aclnn_handles.h"
#include "cann/ffi.h"
#include "cann/pool.h"

namespace npu::cann {

/// The parameters of an operator's GetWorkspaceSize before the workspace's size, from facts/aclnn.json.
/// Letters: T tensor, S scalar, I B F arrays of integers, booleans, floats, L l lists of tensors, scalars, s
/// string, d double, f float, b bool, t aclDataType, q Q i u c integers (signed 64, unsigned 64, signed 32,
/// unsigned 32, signed 8 bits).
struct Prototype {
    const char* name;
    const char* letters;
    const char* parameters;  ///< names, separated by spaces
    uint64_t written;        ///< bit i: parameter i is a tensor (list) that the operator writes
};
extern const Prototype kPrototypes[];
extern const std::size_t kPrototypeCount;

/// Null: CANN's headers and documents have no such operator.
const Prototype* find_prototype(std::string_view name);

/// One argument as it is handed over: an address (tensor, scalar, array, list, string; null for an optional
/// one that is absent), an integer (also bool and aclDataType), a real number.
using Argument = std::variant<const void*, int64_t, uint64_t, double>;

/// An operator with its functions bound. Immutable, so thread-safe.
class OpExecutor {
  public:
    /// One object an operator and process. Throws std::invalid_argument (no such operator, with the nearest
    /// name), SymbolError.
    static const OpExecutor& of(std::string_view name);

    const Prototype& prototype() const { return prototype_; }
    std::span<const std::string> parameters() const { return parameters_; }

    /// Puts the operator on the stream. The workspace comes from the pool of the stream's device.
    /// Throws std::invalid_argument (count, kind or range of an argument), Error (either phase failed).
    void run(std::span<const Argument> arguments, const std::shared_ptr<Stream>& stream) const;

    /// Whether this CANN has the operator.
    static bool exists(std::string_view name);

  private:
    explicit OpExecutor(const Prototype& prototype);
    struct Slot;
    void fill(const Argument& argument, std::size_t index, Slot& slot) const;
    [[noreturn]] void refuse(std::size_t index, const std::string& why) const;

    const Prototype& prototype_;
    std::vector<std::string> parameters_;
    std::string first_name_;
    void* first_;
    void* second_;
    std::unique_ptr<CallInterface> interface_;
};

/// What a parameter of that letter takes, for messages: "a tensor".
const char* kind_of(char letter);

}  // namespace npu::cann
