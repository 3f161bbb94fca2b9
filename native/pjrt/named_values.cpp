#include "pjrt/named_values.h"

#include <string_view>

#include "pjrt/status.h"

namespace npu::pjrt {

PJRT_NamedValue& NamedValues::next(const std::string& name, int type, std::size_t size) {
    const std::string& kept = texts_.emplace_back(name);
    PJRT_NamedValue& value = values_.emplace_back();
    value.struct_size = sizeof(PJRT_NamedValue);
    value.name = kept.data();
    value.name_size = kept.size();
    value.type = static_cast<uint32_t>(type);
    value.value_size = size;
    return value;
}

void NamedValues::add(const std::string& name, const std::string& value) {
    const std::string& kept = texts_.emplace_back(value);
    next(name, PJRT_NamedValue_kString, kept.size()).value.string_value = kept.data();
}

void NamedValues::add(const std::string& name, int64_t value) {
    next(name, PJRT_NamedValue_kInt64, 1).value.int64_value = value;
}

void NamedValues::add(const std::string& name, float value) {
    next(name, PJRT_NamedValue_kFloat, 1).value.float_value = value;
}

void NamedValues::add(const std::string& name, std::vector<int64_t> value) {
    const std::vector<int64_t>& kept = lists_.emplace_back(std::move(value));
    next(name, PJRT_NamedValue_kInt64List, kept.size()).value.int64_array_value = kept.data();
}

std::optional<int64_t> find_integer(const PJRT_NamedValue* values, std::size_t count, const char* name) {
    for (std::size_t i = 0; i < count; ++i) {
        if (std::string_view(values[i].name, values[i].name_size) != name) continue;
        if (values[i].type != PJRT_NamedValue_kInt64)
            throw invalid(std::string("the option ") + name + " must be an integer");
        return values[i].value.int64_value;
    }
    return std::nullopt;
}

}  // namespace npu::pjrt
