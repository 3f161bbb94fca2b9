// libascendcl's door to the engine.
#include <dlfcn.h>

#include <mutex>

#include "ge/engine/engine.h"

namespace npu::ge {

Engine& engine() {
    static std::mutex mutex;
    static Engine* loaded = nullptr;
    std::lock_guard lock(mutex);
    if (loaded != nullptr) return *loaded;
    void* library = dlopen(kEngineLibrary, RTLD_NOW | RTLD_LOCAL);  // for good: kernels have threads
    auto* function = library ? reinterpret_cast<EngineFunction*>(dlsym(library, kEngineFunction)) : nullptr;
    if (function == nullptr) {
        const char* error = dlerror();
        throw graph::GraphError(
            std::string("the emulator computes graphs with ATen, which could not be loaded (") +
            (error ? error : "no reason given") + "); import torch (CPU build) before the first graph");
    }
    loaded = function();
    return *loaded;
}

}  // namespace npu::ge
