#include "aclop/attribute_rule.h"

#include <sstream>

namespace npu::aclop {
namespace {

struct Print {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(const std::string& value) const { return value; }
    template <class Number>
    std::string operator()(Number value) const
        requires std::is_arithmetic_v<Number>
    {
        std::ostringstream text;
        text << value;
        return text.str();
    }
    template <class Item>
    std::string operator()(const std::vector<Item>& values) const {
        std::string text;
        for (const Item& value : values) text += (text.empty() ? "[" : ",") + Print()(value);
        return text.empty() ? "[]" : text + "]";
    }
};

bool contains(std::string_view list, std::string_view item) {
    while (true) {
        const auto end = list.find('|');
        if (list.substr(0, end) == item) return true;
        if (end == std::string_view::npos) return false;
        list.remove_prefix(end + 1);
    }
}

}  // namespace

AttributeRule::AttributeRule(std::string_view text) {
    const auto equals = text.find('=');
    name = text.substr(0, equals);
    if (equals != std::string_view::npos) allowed = text.substr(equals + 1);
    may_be_absent = name.ends_with('?');
    if (may_be_absent) name.remove_suffix(1);
}

std::optional<std::string> AttributeRule::refusal(const aclopAttr::Value* value) const {
    if (value == nullptr && may_be_absent) return std::nullopt;
    const std::string given = value ? std::visit(Print(), *value) : "";
    if (value != nullptr && contains(allowed, given)) return std::nullopt;
    return "its attribute " + std::string(name) + (value ? " is " + given : " is not given") +
           "; the host emulator implements " + std::string(allowed) + " only";
}

}  // namespace npu::aclop
