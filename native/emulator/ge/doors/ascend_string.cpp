// libgraph_base: AscendString, and the error that the other libraries share.
#include <cstring>
#include <mutex>

#include "ge/doors/error.h"
#include "ge/doors/ge_api.h"

namespace ge {

AscendString::AscendString(const char* text) {
    if (text != nullptr) name_ = std::make_shared<std::string>(text);
}
AscendString::AscendString(const char* text, std::size_t length) {
    if (text != nullptr) name_ = std::make_shared<std::string>(text, length);
}
const char* AscendString::GetString() const { return name_ ? name_->c_str() : ""; }
std::size_t AscendString::GetLength() const { return name_ ? name_->size() : 0; }
bool AscendString::operator<(const AscendString& other) const {
    return std::strcmp(GetString(), other.GetString()) < 0;
}
bool AscendString::operator==(const AscendString& other) const {
    return std::strcmp(GetString(), other.GetString()) == 0;
}
bool AscendString::operator!=(const AscendString& other) const { return !(*this == other); }

}  // namespace ge

namespace npu::ge {
namespace {

std::mutex mutex;
std::string& process_error() {
    static std::string sentence;
    return sentence;
}

}  // namespace

void set_error(const std::string& sentence) {
    std::lock_guard lock(mutex);
    process_error() = sentence;
}

const char* last_error() {
    thread_local std::string copy;
    std::lock_guard lock(mutex);
    copy = process_error();
    return copy.c_str();
}

uint32_t failed(const std::string& sentence) {
    set_error(sentence);
    return ::ge::kFailed;
}

}  // namespace npu::ge
