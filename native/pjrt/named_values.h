// Lists of named values as PJRT passes them: attributes, costs, options.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

/// Owns what its values point to. Not copyable: addresses stay valid as long as it lives.
struct NamedValues {
    NamedValues() = default;
    NamedValues(const NamedValues&) = delete;
    NamedValues& operator=(const NamedValues&) = delete;

    void add(const std::string& name, const std::string& value);
    void add(const std::string& name, int64_t value);
    void add(const std::string& name, float value);
    void add(const std::string& name, std::vector<int64_t> value);
    const PJRT_NamedValue* data() const { return values_.data(); }
    std::size_t size() const { return values_.size(); }

  private:
    PJRT_NamedValue& next(const std::string& name, int type, std::size_t size);

    std::vector<PJRT_NamedValue> values_;
    std::deque<std::string> texts_;
    std::deque<std::vector<int64_t>> lists_;
};

/// An option of that name among a caller's; nothing where it is absent. Throws Status: of another type.
std::optional<int64_t> find_integer(const PJRT_NamedValue* values, std::size_t count, const char* name);

}  // namespace npu::pjrt
