#include "kernels/registry.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>

#include "kernels/kernel.h"
#include "kernels/prototypes.h"
#include "kernels/scope.h"

namespace npu::emulator {
namespace {

using Rows = std::map<std::string, Kernel, std::less<>>;

struct Registry {
    Rows aclnn, ge;
};

Registry& registry() {
    static Registry instance;
    return instance;
}

void add(Rows& rows, const std::string& name, Kernel kernel) {
    kernel.name = name;
    if (!rows.emplace(name, std::move(kernel)).second) {
        std::fprintf(stderr, "emulator: operator %s has two rows in the table of kernels\n", name.c_str());
        std::abort();
    }
}

void add_all(const Entry* begin, const Entry* end) {
    for (auto* entry = begin; entry != end; ++entry) {
        if (!entry->aclnn.empty()) add(registry().aclnn, entry->aclnn, entry->kernel);
        if (!entry->ge.empty()) add(registry().ge, entry->ge, entry->kernel);
    }
}

constexpr std::string_view kInplace = "aclnnInplace";

// self op= ...: the out-of-place kernel with self as its output, through a temporary unless every element of
// the output depends on the same element of self alone.
Kernel inplace_from(const Kernel& base, std::string name) {
    Kernel kernel = base;
    kernel.name = std::move(name);
    kernel.letters.pop_back();
    kernel.body = [base](const Args& args) {
        Args full = args;
        const Tensor self = detail::Cast<Tensor>::from(args.at(0), 0);
        const Tensor result = base.elementwise ? self : at::empty_like(self);
        full.emplace_back(TensorArg{result});
        base.body(full);
        if (!base.elementwise) self.copy_(result);
    };
    return kernel;
}

}  // namespace

Table::Table(std::initializer_list<Entry> entries) { add_all(entries.begin(), entries.end()); }
Table::Table(const std::vector<Entry>& entries) { add_all(entries.data(), entries.data() + entries.size()); }

Table::Table(std::initializer_list<const char*> aclnn_names, std::function<void(const NamedArgs&)> body) {
    for (std::string name : aclnn_names) {
        auto* prototype = find_prototype(name);
        if (prototype == nullptr) {
            std::fprintf(stderr, "emulator: operator %s has a row in the table of kernels but no prototype\n",
                         name.c_str());
            std::abort();
        }
        Kernel kernel;
        kernel.letters = prototype->letters;
        kernel.body = [body, prototype](const Args& args) { body(NamedArgs(args, prototype->parameters)); };
        add(registry().aclnn, name, std::move(kernel));
    }
}

std::size_t NamedArgs::find(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) - names_.begin();
}

std::optional<Tensor> NamedArgs::present(std::string_view name) const {
    auto tensor = get<std::optional<Tensor>>(name, std::nullopt);
    return tensor && tensor->numel() > 0 ? tensor : std::nullopt;
}

const Kernel* find_aclnn(std::string_view name) {
    auto& rows = registry().aclnn;
    if (auto row = rows.find(name); row != rows.end()) return &row->second;
    if (!name.starts_with(kInplace)) return nullptr;
    auto base = rows.find("aclnn" + std::string(name.substr(kInplace.size())));
    if (base == rows.end() || base->second.letters.size() < 2 || base->second.letters.front() != 'T' ||
        base->second.letters.back() != 'T') {
        return nullptr;
    }
    static std::mutex mutex;
    static std::map<std::string, Kernel, std::less<>> derived;
    std::lock_guard lock(mutex);
    if (auto row = derived.find(name); row != derived.end()) return &row->second;
    return &derived.emplace(name, inplace_from(base->second, std::string(name))).first->second;
}

const Kernel* find_ge(std::string_view type) {
    auto row = registry().ge.find(type);
    return row == registry().ge.end() ? nullptr : &row->second;
}

std::vector<std::string> ge_names() {
    std::vector<std::string> names;
    for (auto& [name, kernel] : registry().ge) names.push_back(name);
    return names;
}

std::vector<std::string> aclnn_names() {
    std::vector<std::string> names;
    for (auto& [name, kernel] : registry().aclnn) names.push_back(name);
    return names;
}

void run(const Kernel& kernel, const Args& args) {
    const AtenScope scope;
    try {
        TORCH_CHECK(args.size() == kernel.letters.size(), "takes ", kernel.letters.size(),
                    " arguments, was given ", args.size());
        kernel.body(args);
    } catch (const c10::Error& error) {
        throw std::runtime_error(
            error.what_without_backtrace());  // ATen's C++ frames say nothing to the user
    }
}

void write(const Tensor& out, const Tensor& value) {
    TORCH_CHECK(out.sizes() == value.sizes(), "the output has shape ", out.sizes(), ", the result has ",
                value.sizes());
    out.copy_(value);
}

void DynamicOutput::set(const Tensor& value) const {
    TORCH_CHECK(sink.defined(), "the result's shape ", value.sizes(),
                " cannot be handed back through this call");
    TORCH_CHECK(value.numel() <= buffer.numel(), "the result has shape ", value.sizes(), ", the output only ",
                buffer.numel(), " elements");
    buffer.view({-1}).narrow(0, 0, value.numel()).copy_(value.reshape({-1}));
    sink->set_view_shape(value.sizes());
}

namespace detail {

void bad_argument(std::size_t index, const char* wanted, const Arg& got) {
    static constexpr const char* kinds[] = {"null",       "a null tensor or a tensor",
                                            "a scalar",   "integers",
                                            "flags",      "floats",
                                            "tensors",    "scalars",
                                            "an integer", "a number",
                                            "a flag",     "a string",
                                            "a dtype"};
    TORCH_CHECK(false, "argument ", index, " must be ", wanted, ", got ", kinds[got.index()]);
}

}  // namespace detail
}  // namespace npu::emulator
