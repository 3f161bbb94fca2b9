#include "cann/loader.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <span>

#include "cann/acl.h"

namespace npu::cann {
namespace {

namespace fs = std::filesystem;

// First found wins. Custom operators come before CANN's own, as in torch_npu; CANN 8.5 and later split
// libopapi.
constexpr const char* kRuntime[] = {"libascendcl.so", "libacl_rt.so", "libacl_mdl.so"};
constexpr const char* kHccl[] = {"libhccl.so", "libhcomm.so"};
constexpr const char* kAclnn[] = {"libnnopbase.so", "libopapi.so"};
constexpr const char* kOperators[] = {
    "libcust_opapi.so",        "libopapi.so",      "libopapi_nn.so",   "libopapi_math.so",
    "libopapi_transformer.so", "libopapi_cv.so",   "libaclnn_math.so", "libaclnn_ops_infer.so",
    "libaclnn_ops_train.so",   "libaclnn_rand.so", "libaclnn_fft.so",  "libaclnn_sparse.so",
};

// Building models; the error message's home differs between versions.
constexpr const char* kGraph[] = {"libgraph_base.so", "libgraph.so", "libge_compiler.so",
                                  "libge_runner_v2.so", "libge_runner.so"};

constexpr auto kParts = static_cast<std::size_t>(Part::count);

std::span<const char* const> sonames(Part part) {
    static constexpr std::array<std::span<const char* const>, kParts> table{kRuntime, kHccl, kAclnn,
                                                                            kOperators, kGraph};
    return table[static_cast<std::size_t>(part)];
}

struct Libraries {
    std::mutex mutex;
    std::array<std::vector<void*>, kParts> handles;  // never closed: streams and threads of CANN live in them
    std::array<std::string, kParts> failures;        // what the dynamic linker said, for the report
    std::vector<std::pair<Part, const char*>> bound;
};

Libraries& libraries() {
    static auto* all = new Libraries;  // outlives every static object that may still call CANN
    return *all;
}

void* open(const char* soname, std::string& failures) {
    if (void* loaded = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD)) return loaded;
    if (const char* home = std::getenv("ASCEND_HOME_PATH"); home != nullptr && *home != '\0') {
        const fs::path file = fs::path(home) / "lib64" / soname;
        std::error_code ignored;
        if (fs::exists(file, ignored)) {
            if (void* handle = dlopen(file.c_str(), RTLD_LAZY)) return handle;
            failures += std::string(failures.empty() ? "" : "; ") + dlerror();
            return nullptr;
        }
    }
    if (void* handle = dlopen(soname, RTLD_LAZY)) return handle;
    return nullptr;
}

// Libraries that were not there are looked for again: a part may be loaded later, by torch_npu for one.
const std::vector<void*>& open_all(Libraries& all, Part part) {
    auto& handles = all.handles[static_cast<std::size_t>(part)];
    if (!handles.empty()) return handles;
    std::string failures;
    for (const char* soname : sonames(part))
        if (void* handle = open(soname, failures)) handles.push_back(handle);
    all.failures[static_cast<std::size_t>(part)] = failures;
    return handles;
}

void* look_up(Part part, const char* name) {
    Libraries& all = libraries();
    std::lock_guard lock(all.mutex);
    for (void* handle : open_all(all, part))
        if (void* address = dlsym(handle, name)) return address;
    return nullptr;
}

std::string file_of(const void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string stated_in(const fs::path& file) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos) continue;
        std::string key = line.substr(0, equals);
        for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (key.ends_with("version")) return line.substr(equals + 1, line.find_last_not_of(" \r\t") - equals);
    }
    return "";
}

std::string answered_by_runtime() {
    using Answer = aclError(aclCANNPackageName, aclCANNPackageVersion*);
    auto* ask = reinterpret_cast<Answer*>(look_up(Part::runtime, "aclsysGetCANNVersion"));
    aclCANNPackageVersion answer{};
    if (ask == nullptr || ask(ACL_PKG_NAME_RUNTIME, &answer) != ACL_SUCCESS) return "";
    return answer.version;
}

// lib64 may be a link into <arch>-linux/lib64: the version file is looked for beside both.
std::string version_of(const std::string& file) {
    std::error_code ignored;
    const fs::path canonical = fs::canonical(file, ignored);
    for (const fs::path& library : {fs::path(file), canonical}) {
        fs::path folder = library.parent_path();
        for (int up = 0; up < 3 && folder.has_relative_path(); ++up, folder = folder.parent_path())
            for (const char* name : {"version.info", "runtime/version.info", "version.cfg"})
                if (std::string text = stated_in(folder / name); !text.empty()) return text;
    }
    const std::string text = answered_by_runtime();
    return text.empty() ? "unknown" : text;
}

std::string file_of_library(void* handle) {
    link_map* map = nullptr;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

[[noreturn]] void refuse(Part part, const char* name) {
    std::vector<void*> handles;
    std::string failures;
    {
        Libraries& all = libraries();
        std::lock_guard lock(all.mutex);
        handles = open_all(all, part);
        failures = all.failures[static_cast<std::size_t>(part)];
    }
    std::string names, searched;
    for (const char* soname : sonames(part)) names += (names.empty() ? "" : ", ") + std::string(soname);
    for (void* handle : handles) {
        const std::string file = file_of_library(handle);
        searched += (searched.empty() ? "" : ", ") + file + " (CANN " + version_of(file) + ")";
    }
    if (searched.empty())
        throw SymbolError("CANN's " + std::string(name) + " is needed, and none of " + names +
                          " is loaded or loads" + (failures.empty() ? "" : " (" + failures + ")") +
                          ": call npu_common.toolkit.activate() first, or set ASCEND_HOME_PATH to a CANN");
    throw SymbolError("this CANN has no " + std::string(name) + ": it is not in " + searched +
                      "; a newer CANN may have it, and `npu doctor` says which one is used and why");
}

}  // namespace

void* find(Part part, const char* name) {
    if (void* address = look_up(part, name)) return address;
    refuse(part, name);
}

void* find_if_any(Part part, const char* name) noexcept { return look_up(part, name); }

Origin origin(Part part, const char* name) {
    const std::string file = file_of(find(part, name));
    return {name, file, version_of(file)};
}

void remember(Part part, const char* name) {
    Libraries& all = libraries();
    std::lock_guard lock(all.mutex);
    all.bound.emplace_back(part, name);
}

std::vector<Origin> bound() {
    std::vector<std::pair<Part, const char*>> names;
    {
        Libraries& all = libraries();
        std::lock_guard lock(all.mutex);
        names = all.bound;
    }
    std::vector<Origin> origins;
    for (const auto& [part, name] : names) origins.push_back(origin(part, name));
    return origins;
}

std::string version() { return origin(Part::runtime, "aclInit").version; }

}  // namespace npu::cann
