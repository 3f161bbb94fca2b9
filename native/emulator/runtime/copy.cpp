// Copies and fills, in stream order or at once.
#include <cstring>
#include <memory>

#include "graph.h"
#include "memory.h"
#include "runtime.h"

using namespace npu::emulator;

namespace {

/// Rows of `width` bytes, `spitch` and `dpitch` bytes apart; one row for a plain copy.
struct Copy {
    std::byte* destination;
    const std::byte* source;
    std::size_t width;
    std::size_t height = 1;
    std::size_t dpitch = 0;
    std::size_t spitch = 0;

    std::size_t bytes() const { return width * height; }
    void run() const {
        for (std::size_t row = 0; row < height; ++row)
            std::memmove(destination + row * dpitch, source + row * spitch, width);
    }
};

class CopyTask final : public Task {
  public:
    CopyTask(const Copy& copy, const char* name) : copy_(copy), name_(name) {}

    /// Takes the source now, because the application may reuse pageable memory as soon as the call returns.
    void stage() {
        staged_ = std::make_unique_for_overwrite<std::byte[]>(copy_.bytes());
        Copy in = copy_;
        in.destination = staged_.get();
        in.dpitch = copy_.width;
        in.run();
        copy_.source = staged_.get();
        copy_.spitch = copy_.width;
    }
    void run() override { copy_.run(); }
    const char* name() const override { return name_; }
    std::size_t work() const override { return copy_.bytes(); }

  private:
    Copy copy_;
    const char* name_;
    std::unique_ptr<std::byte[]> staged_;
};

class FillTask final : public Task {
  public:
    FillTask(void* address, int32_t value, std::size_t count)
        : address_(address), value_(value), count_(count) {}
    void run() override { std::memset(address_, value_, count_); }
    const char* name() const override { return "aclrtMemsetAsync"; }
    std::size_t work() const override { return count_; }

  private:
    void* address_;
    int32_t value_;
    std::size_t count_;
};

bool host_side(const void* address) {
    const auto found = Memory::get().find(address);
    return !found || found->second.device == nullptr;
}

/// Resolves ACL_MEMCPY_DEFAULT by where the addresses are.
aclError resolve(aclrtMemcpyKind* kind, const void* destination, const void* source, const char* function) {
    if (*kind == ACL_MEMCPY_DEFAULT) {
        *kind = host_side(source)
                    ? (host_side(destination) ? ACL_MEMCPY_HOST_TO_HOST : ACL_MEMCPY_HOST_TO_DEVICE)
                    : (host_side(destination) ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_DEVICE_TO_DEVICE);
    }
    if (*kind <= ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(function) + ": kind " + std::to_string(*kind) + " is not one of ACL_MEMCPY_*");
}

aclError check(const Copy& copy, std::size_t limit, const char* function) {
    if (copy.bytes() == 0) return ACL_SUCCESS;
    NPU_RETURN_IF_ERROR(require(copy.destination, function, "dst"));
    NPU_RETURN_IF_ERROR(require(copy.source, function, "src"));
    if (copy.width <= limit) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": " + std::to_string(copy.width) +
                                             " bytes do not fit into the " + std::to_string(limit) +
                                             " of the destination");
}

/// Whether the calling thread may touch the memory at once: the sticky error of the device that holds either
/// address or of the current device, and what a running capture forbids.
aclError allowed_now(const Copy& copy, const char* function) {
    Runtime& runtime = Runtime::get();
    const auto source = Memory::get().find(copy.source);
    const auto destination = Memory::get().find(copy.destination);
    Lock lock(runtime.scheduler.mutex);
    for (const auto& found : {source, destination}) {
        if (found && found->second.device != nullptr)
            NPU_RETURN_IF_ERROR(runtime.sticky(*found->second.device, function));
    }
    Context* context = runtime.current_context();
    if (context == nullptr) return ACL_SUCCESS;
    NPU_RETURN_IF_ERROR(refuse_unsafe(*context->device, function, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT));
    return runtime.sticky(*context->device, function);
}

aclError copy_now(const Copy& copy, std::size_t limit, aclrtMemcpyKind kind, const char* function) {
    NPU_RETURN_IF_ERROR(use(function));
    NPU_RETURN_IF_ERROR(check(copy, limit, function));
    NPU_RETURN_IF_ERROR(resolve(&kind, copy.destination, copy.source, function));
    if (kind != ACL_MEMCPY_HOST_TO_HOST) NPU_RETURN_IF_ERROR(allowed_now(copy, function));
    if (copy.bytes() > 0) copy.run();
    return ACL_SUCCESS;
}

aclError copy_async(const Copy& copy, std::size_t limit, aclrtMemcpyKind kind, aclrtStream stream,
                    const char* function) {
    NPU_RETURN_IF_ERROR(use(function));
    NPU_RETURN_IF_ERROR(check(copy, limit, function));
    if (copy.bytes() == 0) return ACL_SUCCESS;
    NPU_RETURN_IF_ERROR(resolve(&kind, copy.destination, copy.source, function));
    auto task = std::make_unique<CopyTask>(copy, function);
    const bool from_host = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    const bool pageable_source =
        (from_host || kind == ACL_MEMCPY_HOST_TO_HOST) && !Memory::get().find(copy.source);
    const bool pageable_target = (kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_HOST_TO_HOST) &&
                                 !Memory::get().find(copy.destination);
    if (pageable_source || pageable_target)
        NPU_RETURN_IF_ERROR(refuse_pageable(stream, function, pageable_target));
    if (pageable_source) task->stage();
    NPU_RETURN_IF_ERROR(launch(stream, std::move(task), Engine::copy));
    // Pageable memory may be freed as soon as the call returns: such a copy is complete then.
    return pageable_target ? aclrtSynchronizeStream(stream) : ACL_SUCCESS;
}

Copy plain(void* destination, const void* source, std::size_t count) {
    return {static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), count};
}

Copy pitched(void* destination, std::size_t dpitch, const void* source, std::size_t spitch, std::size_t width,
             std::size_t height) {
    return {static_cast<std::byte*>(destination),
            static_cast<const std::byte*>(source),
            width,
            height,
            dpitch,
            spitch};
}

aclError check_pitch(std::size_t dpitch, std::size_t spitch, std::size_t width, const char* function) {
    if (width <= dpitch && width <= spitch) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": a pitch is smaller than the width");
}

/// Where each copy of a batch is, by its attributes (attribute i holds from copy indexes[i] on).
struct Batch {
    void** dsts;
    size_t* limits;
    void** srcs;
    size_t* sizes;
    size_t count;
    aclrtMemcpyBatchAttr* attrs;
    size_t* indexes;
    size_t attr_count;

    aclError check(const char* function) const {
        for (const void* pointer : {static_cast<const void*>(dsts), static_cast<const void*>(limits),
                                    static_cast<const void*>(srcs), static_cast<const void*>(sizes),
                                    static_cast<const void*>(attrs), static_cast<const void*>(indexes)}) {
            NPU_RETURN_IF_ERROR(require(pointer, function, "an array"));
        }
        if (count == 0 || attr_count == 0 || indexes[0] != 0)
            return fail(ACL_ERROR_INVALID_PARAM, std::string(function) +
                                                     ": give at least one copy and attribute, "
                                                     "the first attribute for copy 0");
        return ACL_SUCCESS;
    }

    aclrtMemcpyKind kind(size_t copy) const {
        size_t i = 0;
        while (i + 1 < attr_count && indexes[i + 1] <= copy) ++i;
        const bool from_device = attrs[i].srcLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
        const bool to_device = attrs[i].dstLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
        if (from_device) return to_device ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
        return to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_HOST_TO_HOST;
    }
};

template <class Each>
aclError run_batch(const Batch& batch, size_t* failIndex, const char* function, Each each) {
    if (failIndex != nullptr) *failIndex = SIZE_MAX;
    NPU_RETURN_IF_ERROR(batch.check(function));
    for (size_t i = 0; i < batch.count; ++i) {
        const aclError code =
            each(plain(batch.dsts[i], batch.srcs[i], batch.sizes[i]), batch.limits[i], batch.kind(i));
        if (code == ACL_SUCCESS) continue;
        if (failIndex != nullptr) *failIndex = i;
        return code;
    }
    return ACL_SUCCESS;
}

}  // namespace

/// Copies at once, without waiting for work that is queued on streams.
aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
    return copy_now(plain(dst, src, count), destMax, kind, "aclrtMemcpy");
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    return copy_async(plain(dst, src, count), destMax, kind, stream, "aclrtMemcpyAsync");
}

/// As aclrtMemcpyAsync, which is complete on return already where the host memory is not pinned.
aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src, size_t count,
                                       aclrtMemcpyKind kind, aclrtStream stream) {
    return copy_async(plain(dst, src, count), destMax, kind, stream, "aclrtMemcpyAsyncWithCondition");
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
    NPU_RETURN_IF_ERROR(check_pitch(dpitch, spitch, width, "aclrtMemcpy2d"));
    return copy_now(pitched(dst, dpitch, src, spitch, width, height), dpitch, kind, "aclrtMemcpy2d");
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream) {
    NPU_RETURN_IF_ERROR(check_pitch(dpitch, spitch, width, "aclrtMemcpy2dAsync"));
    return copy_async(pitched(dst, dpitch, src, spitch, width, height), dpitch, kind, stream,
                      "aclrtMemcpy2dAsync");
}

aclError aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs,
                          size_t* failIndex) {
    const Batch batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs};
    return run_batch(batch, failIndex, "aclrtMemcpyBatch",
                     [](const Copy& copy, size_t limit, aclrtMemcpyKind kind) {
                         return copy_now(copy, limit, kind, "aclrtMemcpyBatch");
                     });
}

aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs,
                               size_t* failIndex, aclrtStream stream) {
    const Batch batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs};
    return run_batch(batch, failIndex, "aclrtMemcpyBatchAsync",
                     [stream](const Copy& copy, size_t limit, aclrtMemcpyKind kind) {
                         return copy_async(copy, limit, kind, stream, "aclrtMemcpyBatchAsync");
                     });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
    constexpr const char* name = "aclrtMemset";
    NPU_RETURN_IF_ERROR(use(name));
    const Copy range = plain(devPtr, devPtr, count);
    NPU_RETURN_IF_ERROR(check(range, maxCount, name));
    NPU_RETURN_IF_ERROR(allowed_now(range, name));
    if (count > 0) std::memset(devPtr, value, count);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    NPU_RETURN_IF_ERROR(check(plain(devPtr, devPtr, count), maxCount, "aclrtMemsetAsync"));
    if (count == 0) return ACL_SUCCESS;
    return launch(stream, std::make_unique<FillTask>(devPtr, value, count), Engine::copy);
}
