// A custom call as a user writes it with jaxlib's own headers: copies its argument, on the device's stream.
#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using MemcpyAsync = int (*)(void*, size_t, const void*, size_t, int, void*);
constexpr int kDeviceToDevice = 3;  // ACL_MEMCPY_DEVICE_TO_DEVICE

static ffi::Error Copy(void* stream, ffi::AnyBuffer in, ffi::Result<ffi::AnyBuffer> out,
                       std::string_view mode, int32_t limit, ffi::Span<const float> weights) {
    if (mode == "fail") return ffi::Error(ffi::ErrorCode::kOutOfRange, "the handler was told to fail");
    if (limit != 7 || weights.size() != 2 || weights[1] != 2.5f)
        return ffi::Error::Internal("wrong attributes");
    if (in.element_type() != ffi::DataType::F32 || in.dimensions().size() != 1) {
        return ffi::Error::InvalidArgument("wrong argument");
    }
    void* acl = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD);
    const auto copy = reinterpret_cast<MemcpyAsync>(dlsym(acl, "aclrtMemcpyAsync"));
    const int code = copy(out->untyped_data(), out->size_bytes(), in.untyped_data(), in.size_bytes(),
                          kDeviceToDevice, stream);
    return code == 0 ? ffi::Error::Success() : ffi::Error::Internal("aclrtMemcpyAsync failed");
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(CopyHandler, Copy,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::string_view>("mode")
                                  .Attr<int32_t>("limit")
                                  .Attr<ffi::Span<const float>>("a_weights"));

// Writes the first half of its one array over the second: what it reads is what the caller gave it in place.
static ffi::Error Repeat(void* stream, ffi::AnyBuffer in, ffi::Result<ffi::AnyBuffer> out,
                         ffi::Dictionary options) {
    const auto name = options.get<std::string_view>("name");
    const auto size = options.get<int64_t>("size");
    if (!name.has_value() || *name != "half" || !size.has_value() || *size != 2)
        return ffi::Error::Internal("wrong attributes");
    if (in.untyped_data() != out->untyped_data()) return ffi::Error::Internal("not in place");
    void* acl = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD);
    const auto copy = reinterpret_cast<MemcpyAsync>(dlsym(acl, "aclrtMemcpyAsync"));
    const size_t half = out->size_bytes() / 2;
    char* data = static_cast<char*>(out->untyped_data());
    const int code = copy(data + half, half, data, half, kDeviceToDevice, stream);
    return code == 0 ? ffi::Error::Success() : ffi::Error::Internal("aclrtMemcpyAsync failed");
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RepeatHandler, Repeat,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<ffi::Dictionary>("options"));
