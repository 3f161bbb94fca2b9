#include "pjrt/status.h"

#include <new>

#include "cann/error.h"
#include "graph/wire.h"

namespace npu::pjrt {

Failure current_failure() noexcept {
    try {
        throw;
    } catch (const Status& error) {
        return {error.code(), error.what()};
    } catch (const cann::Error& error) {
        return {error.out_of_memory() ? PJRT_Error_Code_RESOURCE_EXHAUSTED : PJRT_Error_Code_INTERNAL,
                error.what()};
    } catch (const cann::SymbolError& error) {
        return {PJRT_Error_Code_FAILED_PRECONDITION, error.what()};
    } catch (const graph::GraphError& error) {
        return {PJRT_Error_Code_INVALID_ARGUMENT, error.what()};
    } catch (const std::invalid_argument& error) {
        return {PJRT_Error_Code_INVALID_ARGUMENT, error.what()};
    } catch (const std::bad_alloc&) {
        return {PJRT_Error_Code_RESOURCE_EXHAUSTED, "the host has no memory left"};
    } catch (const std::exception& error) {
        return {PJRT_Error_Code_INTERNAL, error.what()};
    } catch (...) {
        return {PJRT_Error_Code_INTERNAL, "an exception that is no std::exception"};
    }
}

ErrorObject* make_error(Failure failure) noexcept {
    return new (std::nothrow) ErrorObject{std::move(failure)};
}

namespace {

void destroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void message(PJRT_Error_Message_Args* args) {
    static const std::string none;
    const std::string& text = args->error == nullptr ? none : args->error->failure.message;
    args->message = text.data();
    args->message_size = text.size();
}

ErrorObject* code(PJRT_Error_GetCode_Args* args) {
    const int code = args->error == nullptr ? PJRT_Error_Code_OK : args->error->failure.code;
    args->code = static_cast<uint32_t>(code);
    return nullptr;
}

// Errors of ours carry no payloads. An error as the answer would make jaxlib ask for that one's payloads.
ErrorObject* each_payload(PJRT_Error_ForEachPayload_Args*) { return nullptr; }

}  // namespace

void bind_errors(PJRT_Api& api) {
    api.PJRT_Error_Destroy = destroy;
    api.PJRT_Error_Message = message;
    api.PJRT_Error_GetCode = code;
    api.PJRT_Error_ForEachPayload = each_payload;
}

}  // namespace npu::pjrt
