#include "cann/op_executor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <sstream>

#include "cann/api.h"

namespace npu::cann {
namespace {

struct Kind {
    char letter;
    ArgumentType type;
    const char* name;
    int64_t least = 0;
    uint64_t greatest = 0;  // of integers
};

template <typename T>
constexpr Kind integer(char letter, ArgumentType type, const char* name) {
    return {letter, type, name, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

constexpr Kind kKinds[] = {
    {'T', ArgumentType::pointer, "a tensor"},
    {'S', ArgumentType::pointer, "a scalar"},
    {'I', ArgumentType::pointer, "a list of integers"},
    {'B', ArgumentType::pointer, "a list of booleans"},
    {'F', ArgumentType::pointer, "a list of floats"},
    {'L', ArgumentType::pointer, "a list of tensors"},
    {'l', ArgumentType::pointer, "a list of scalars"},
    {'s', ArgumentType::pointer, "a string"},
    {'d', ArgumentType::float64, "a float"},
    {'f', ArgumentType::float32, "a float"},
    {'b', ArgumentType::uint8, "a bool", 0, 1},
    integer<int32_t>('t', ArgumentType::sint32, "a dtype"),
    integer<int64_t>('q', ArgumentType::sint64, "an integer"),
    {'Q', ArgumentType::uint64, "an integer that is not negative", 0, std::numeric_limits<uint64_t>::max()},
    integer<int32_t>('i', ArgumentType::sint32, "an integer of 32 bits"),
    {'u', ArgumentType::uint32, "an integer of 32 bits that is not negative", 0,
     std::numeric_limits<uint32_t>::max()},
    integer<int8_t>('c', ArgumentType::sint8, "an integer of 8 bits"),
};

const Kind& kind(char letter) {
    const Kind* found = std::ranges::find(kKinds, letter, &Kind::letter);
    if (found == std::end(kKinds))
        throw std::logic_error(std::string("no kind of argument has the letter ") + letter);
    return *found;
}

std::size_t distance(std::string_view a, std::string_view b) {  // Levenshtein's
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j)
            diagonal = std::exchange(
                row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
    }
    return row.back();
}

std::string nearest(std::string_view name) {
    const auto* best = std::min_element(
        kPrototypes, kPrototypes + kPrototypeCount,
        [&](const auto& a, const auto& b) { return distance(name, a.name) < distance(name, b.name); });
    return best->name;
}

}  // namespace

const char* kind_of(char letter) { return kind(letter).name; }

const Prototype* find_prototype(std::string_view name) {
    const auto* end = kPrototypes + kPrototypeCount;
    const auto* found = std::lower_bound(
        kPrototypes, end, name,
        [](const Prototype& row, std::string_view wanted) { return std::string_view(row.name) < wanted; });
    return found != end && found->name == name ? found : nullptr;
}

bool OpExecutor::exists(std::string_view name) {
    return find_prototype(name) != nullptr &&
           find_if_any(Part::operators, (std::string(name) + "GetWorkspaceSize").c_str()) != nullptr;
}

const OpExecutor& OpExecutor::of(std::string_view name) {
    static std::shared_mutex mutex;
    static auto* known = new std::map<std::string, std::unique_ptr<OpExecutor>, std::less<>>;
    {
        std::shared_lock lock(mutex);
        if (const auto found = known->find(name); found != known->end()) return *found->second;
    }
    const Prototype* prototype = find_prototype(name);
    if (prototype == nullptr)
        throw std::invalid_argument("CANN has no operator " + std::string(name) + "; the nearest name is " +
                                    nearest(name));
    std::unique_ptr<OpExecutor> made(new OpExecutor(*prototype));
    std::unique_lock lock(mutex);
    return *known->try_emplace(std::string(name), std::move(made)).first->second;
}

OpExecutor::OpExecutor(const Prototype& prototype)
    : prototype_(prototype),
      first_name_(std::string(prototype.name) + "GetWorkspaceSize"),
      first_(find(Part::operators, first_name_.c_str())),
      second_(find(Part::operators, prototype.name)) {
    std::istringstream names(prototype.parameters);
    for (std::string name; names >> name;) parameters_.push_back(name);
    std::vector<ArgumentType> types;
    for (const char* letter = prototype.letters; *letter != '\0'; ++letter)
        types.push_back(kind(*letter).type);
    types.insert(types.end(), 2, ArgumentType::pointer);  // uint64_t* workspaceSize, aclOpExecutor** executor
    interface_ = std::make_unique<CallInterface>(types);
}

// One argument in the form that libffi reads it: its first bytes, little-endian, are a value of any integer
// type.
struct OpExecutor::Slot {
    union {
        const void* address;
        int64_t integer;
        uint64_t natural;
        double float64;
        float float32;
    };
};

void OpExecutor::refuse(std::size_t index, const std::string& why) const {
    throw std::invalid_argument(std::string(prototype_.name) + ": " + parameters_[index] + " (argument " +
                                std::to_string(index + 1) + ") takes " + kind_of(prototype_.letters[index]) +
                                "; " + why);
}

void OpExecutor::fill(const Argument& argument, std::size_t index, Slot& slot) const {
    const Kind& wanted = kind(prototype_.letters[index]);
    const bool real = wanted.type == ArgumentType::float64 || wanted.type == ArgumentType::float32;
    if (const auto* address = std::get_if<const void*>(&argument)) {
        if (wanted.type != ArgumentType::pointer) refuse(index, "an object was given");
        slot.address = *address;
    } else if (wanted.type == ArgumentType::pointer) {
        refuse(index, "a number was given");
    } else if (const auto* number = std::get_if<double>(&argument)) {
        if (!real) refuse(index, "the real number " + std::to_string(*number) + " was given");
        if (wanted.type == ArgumentType::float32)
            slot.float32 = static_cast<float>(*number);
        else
            slot.float64 = *number;
    } else if (real) {
        refuse(index, "an integer was given");
    } else if (const auto* integer = std::get_if<int64_t>(&argument)) {
        if (*integer < wanted.least || (*integer > 0 && static_cast<uint64_t>(*integer) > wanted.greatest))
            refuse(index, std::to_string(*integer) + " is out of its range");
        slot.integer = *integer;
    } else {
        const uint64_t natural = std::get<uint64_t>(argument);
        if (natural > wanted.greatest) refuse(index, std::to_string(natural) + " is out of its range");
        slot.natural = natural;
    }
}

void OpExecutor::run(std::span<const Argument> arguments, const std::shared_ptr<Stream>& stream) const {
    constexpr std::size_t kMost = 64;  // bits of Prototype::written
    const std::size_t count = parameters_.size();
    if (arguments.size() != count)
        throw std::invalid_argument(std::string(prototype_.name) + " takes " + std::to_string(count) +
                                    " arguments (" + prototype_.parameters + "), " +
                                    std::to_string(arguments.size()) + " were given");
    std::array<Slot, kMost> slots;
    std::array<void*, kMost + 2> pointers;
    for (std::size_t i = 0; i < count; ++i) {
        fill(arguments[i], i, slots[i]);
        pointers[i] = &slots[i];
    }
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    uint64_t* workspace_size_out = &workspace_size;
    aclOpExecutor** executor_out = &executor;
    pointers[count] = &workspace_size_out;
    pointers[count + 1] = &executor_out;

    const aclrtStream handle = stream->handle();
    DeviceGuard guard(stream->device());
    const auto doing = [&] { return std::string("running ") + prototype_.name; };
    check(Family::acl, interface_->call(first_, pointers.data()), first_name_, doing);
    // Freed when this returns: the pool hands it to later work of the same stream only.
    const std::shared_ptr<Block> workspace =
        workspace_size == 0 ? nullptr : Pool::of(stream->device())->allocate(stream, workspace_size);
    using Second = aclnnStatus(void*, uint64_t, aclOpExecutor*, aclrtStream);
    check(Family::acl,
          reinterpret_cast<Second*>(second_)(workspace ? workspace->address() : nullptr, workspace_size,
                                             executor, handle),
          prototype_.name, doing);
}

}  // namespace npu::cann
