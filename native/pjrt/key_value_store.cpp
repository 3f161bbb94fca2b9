#include "pjrt/key_value_store.h"

#include <memory>

#include "pjrt/abi.h"

namespace npu::pjrt {
namespace {

constexpr int kTimeoutMs = 300'000;  // processes may start minutes apart

using MakeError = ErrorObject* (*)(int code, const char* message, std::size_t size);
MakeError make_callback_error = [](int code, const char* message, std::size_t size) {
    return make_error({code, text(message, size)});
};

void pass_on(ErrorObject* error) {
    if (error == nullptr) return;
    const std::unique_ptr<ErrorObject> owned(error);
    throw Status(owned->failure);
}

}  // namespace

void KeyValueStore::put(const std::string& key, const std::string& value) const {
    PJRT_KeyValuePutCallback_Args call{};
    call.struct_size = sizeof call;
    call.key = key.data();
    call.key_size = key.size();
    call.value = value.data();
    call.value_size = value.size();
    call.callback_error = &make_callback_error;
    call.user_arg = put_user_;
    pass_on(put_(&call));
}

std::string KeyValueStore::get(const std::string& key) const {
    PJRT_KeyValueGetCallback_Args call{};
    call.struct_size = sizeof call;
    call.key = key.data();
    call.key_size = key.size();
    call.timeout_in_ms = kTimeoutMs;
    call.callback_error = &make_callback_error;
    call.user_arg = get_user_;
    pass_on(get_(&call));
    const std::string value = text(call.value, call.value_size);
    if (call.value_deleter_callback != nullptr) call.value_deleter_callback(call.value);
    return value;
}

}  // namespace npu::pjrt
