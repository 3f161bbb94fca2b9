#include "cann/error.h"

#include "cann/api.h"
#include "cann/error_names.h"
#include "cann/model_builder.h"

namespace npu::cann {

struct Error::Parts {
    std::string name, detail, sentence;
};

namespace {

std::string recent_message() {
    try {
        const char* text = api::aclGetRecentErrMsg();
        return text == nullptr ? "" : text;
    } catch (const SymbolError&) {
        return "";
    }
}

// graphStatus has two names in CANN's headers for what a builder answers.
const char* graph_status_name(int64_t code) {
    return code == 0xFFFFFFFF ? "GRAPH_FAILED" : code == 0x03000001 ? "GRAPH_PARAM_INVALID" : "graphStatus";
}

const char* name_of(Family family, int64_t code) {
    if (family == Family::graph) return graph_status_name(code);
    return family == Family::hccl ? hccl_result_name(code) : error_name(code);
}

}  // namespace

Error::Error(Family family, int64_t code, std::string_view call, std::string_view doing)
    : Error(
          [&] {
              Parts parts;
              parts.name = name_of(family, code);
              parts.detail = family == Family::graph ? graph_message() : recent_message();
              const std::string repeated = parts.name + " (" + std::to_string(code) + "): ";
              if (parts.detail.starts_with(repeated)) parts.detail.erase(0, repeated.size());
              parts.sentence = std::string(doing) + ": " + std::string(call) + " answered " + parts.name +
                               " (" + std::to_string(code) + ")";
              if (!parts.detail.empty()) parts.sentence += ": " + parts.detail;
              return parts;
          }(),
          family, code, call) {}

Error::Error(Parts parts, Family family, int64_t code, std::string_view call)
    : std::runtime_error(parts.sentence),
      family_(family),
      code_(code),
      code_name_(std::move(parts.name)),
      call_(call),
      detail_(std::move(parts.detail)) {}

bool Error::out_of_memory() const {
    if (family_ == Family::hccl) return code_ == HCCL_E_OOM;
    return code_ == ACL_ERROR_RT_MEMORY_ALLOCATION || code_ == ACL_ERROR_RT_DEVICE_OOM;
}

}  // namespace npu::cann
