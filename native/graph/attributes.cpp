#include "graph/attributes.h"

#include <algorithm>

#include "graph/datatypes.h"
#include "graph/wire.h"

namespace npu::graph {
namespace {

constexpr int64_t kGeUndefined = 28;  // ge::DT_UNDEFINED; aclDataType's is -1

template <class T>
std::optional<Attribute> same(const Attribute& value) {
    if (std::holds_alternative<T>(value)) return value;
    return std::nullopt;
}

std::optional<TypeAttribute> type_of(int64_t number) {
    if (number == kGeUndefined || number == ACL_DT_UNDEFINED) return TypeAttribute{ACL_DT_UNDEFINED};
    if (number < 0 || number > kGeUndefined * 10 || !find_data_type(static_cast<DataType>(number)))
        return std::nullopt;
    return TypeAttribute{static_cast<DataType>(number)};
}

std::optional<Attribute> to_integer(const Attribute& value) {
    if (auto* flag = std::get_if<bool>(&value)) return int64_t{*flag};
    if (auto* type = std::get_if<TypeAttribute>(&value))
        return type->value == ACL_DT_UNDEFINED ? kGeUndefined : int64_t{type->value};
    return same<int64_t>(value);
}

std::optional<Attribute> to_real(const Attribute& value) {
    if (auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    return same<double>(value);
}

std::optional<Attribute> to_flag(const Attribute& value) {
    if (auto* integer = std::get_if<int64_t>(&value); integer && (*integer == 0 || *integer == 1))
        return *integer == 1;
    return same<bool>(value);
}

std::optional<Attribute> to_type(const Attribute& value) {
    if (auto* integer = std::get_if<int64_t>(&value)) {
        if (auto type = type_of(*integer)) return *type;
        return std::nullopt;
    }
    return same<TypeAttribute>(value);
}

bool is_empty_list(const Attribute& value) {
    return std::visit(
        [](const auto& held) {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (requires { held.empty(); } && !std::is_same_v<Held, std::string>)
                return held.empty();
            else
                return false;
        },
        value);
}

/// A list of `To`: as it is, empty of any kind, or of integers that each convert.
template <class To, class Convert>
std::optional<Attribute> to_list(const Attribute& value, Convert convert) {
    if (is_empty_list(value)) return std::vector<To>{};
    if (auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
        std::vector<To> out;
        for (int64_t integer : *integers) {
            std::optional<To> element = convert(integer);
            if (!element) return std::nullopt;
            out.push_back(*element);
        }
        return out;
    }
    return same<std::vector<To>>(value);
}

std::optional<Attribute> to_integers(const Attribute& value) {
    if (auto* flags = std::get_if<std::vector<bool>>(&value))
        return std::vector<int64_t>(flags->begin(), flags->end());
    return to_list<int64_t>(value, [](int64_t i) { return std::optional(i); });
}

std::optional<Attribute> to_reals(const Attribute& value) {
    return to_list<double>(value, [](int64_t i) { return std::optional(static_cast<double>(i)); });
}

std::optional<Attribute> to_flags(const Attribute& value) {
    return to_list<bool>(value,
                         [](int64_t i) { return i == 0 || i == 1 ? std::optional(i == 1) : std::nullopt; });
}

template <class List>
std::optional<Attribute> to_same_list(const Attribute& value) {
    if (is_empty_list(value)) return List{};
    return same<List>(value);
}

struct Conversion {
    std::string_view type;
    std::optional<Attribute> (*convert)(const Attribute&);
};

constexpr Conversion kConversions[] = {
    {"Int", to_integer},
    {"Float", to_real},
    {"Bool", to_flag},
    {"String", same<std::string>},
    {"Type", to_type},
    {"Tensor", same<std::shared_ptr<const Constant>>},
    {"ListInt", to_integers},
    {"ListFloat", to_reals},
    {"ListBool", to_flags},
    {"ListType", [](const Attribute& value) { return to_list<TypeAttribute>(value, type_of); }},
    {"ListString", to_same_list<std::vector<std::string>>},
    {"ListListInt", to_same_list<std::vector<std::vector<int64_t>>>},
};

const char* kind_of(const Attribute& value) {
    constexpr const char* kKinds[] = {"Bool",       "Int",      "Float",       "String",
                                      "Type",       "ListBool", "ListInt",     "ListFloat",
                                      "ListString", "ListType", "ListListInt", "Tensor"};
    static_assert(std::variant_size_v<Attribute> == std::size(kKinds));
    return kKinds[value.index()];
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

/// "; did you mean Add or AddN?" of the nearest names, or nothing.
std::string suggestion(std::string_view wrong, const std::vector<std::string>& names) {
    constexpr std::size_t kLongestName = 100;  // a hostile name costs time for nothing
    if (wrong.size() > kLongestName) return "";
    const std::string* best = nullptr;
    std::size_t nearest = std::max<std::size_t>(wrong.size() / 3, 1) + 1;
    for (const std::string& name : names) {
        std::size_t distance = edit_distance(wrong, name);
        if (distance < nearest) nearest = distance, best = &name;
    }
    return best ? "; did you mean " + *best + "?" : "";
}

/// What torchair writes on nodes beyond the catalogue: layouts of inputs and outputs, copies of descriptors
/// for people to read, and two arguments that newer prototypes have. GE ignores what it does not know; the
/// engine's rows say what they make of the last two.
bool is_known_extra(const OperatorDef& op, std::string_view name) {
    static constexpr std::pair<std::string_view, std::string_view> extras[] = {
        {"TopKV2", "sort_policy"}, {"RotaryMulGrad", "need_backward"}};
    return name == "input_layout_info" || name == "output_layout_info" || name.starts_with("[i]") ||
           name.starts_with("[o]") ||
           std::ranges::find(extras, std::pair<std::string_view, std::string_view>(op.name, name)) !=
               std::end(extras);
}

[[noreturn]] void refuse_unknown(const OperatorDef& op, std::string_view name) {
    std::vector<std::string> names;
    for (const AttributeDef& def : op.attributes) names.push_back(def.name);
    throw GraphError(op.name + " has no attribute " + quoted(name) + " in CANN's catalogue" +
                     suggestion(name, names));
}

}  // namespace

std::optional<Attribute> converted(const AttributeDef& def, const Attribute& value) {
    auto row = std::ranges::find(kConversions, def.type, &Conversion::type);
    return row == std::end(kConversions) ? value : row->convert(value);
}

void complete(const OperatorDef& op, Attributes& attributes) {
    for (auto& [name, value] : attributes) {
        if (name.starts_with('_')) continue;
        const AttributeDef* def = op.attribute(name);
        if (!def && is_known_extra(op, name)) continue;
        if (!def) refuse_unknown(op, name);
        auto fitting = converted(*def, value);
        if (!fitting)
            throw GraphError(op.name + "'s attribute " + quoted(name) + " is of type " + def->type +
                             ", and a value of type " + kind_of(value) + " is given");
        value = *std::move(fitting);
    }
    for (const AttributeDef& def : op.attributes) {
        if (attributes.contains(def.name)) continue;
        if (def.required)
            throw GraphError(op.name + " needs the attribute " + quoted(def.name) + " (" + def.type + ")");
        if (def.fallback) attributes.emplace(def.name, *def.fallback);
    }
}

const OperatorDef& operator_named(std::string_view type) {
    if (const OperatorDef* op = find_operator(type)) return *op;
    throw GraphError("there is no operator " + quoted(type) + " in CANN's catalogue" +
                     suggestion(type, operator_names()));
}

void check_type(const OperatorDef& op, const Port& port, DataType type) {
    if (port.types.empty() || type == ACL_DT_UNDEFINED ||
        std::ranges::find(port.types, type) != port.types.end())
        return;
    std::string listed;
    for (DataType allowed : port.types)
        listed += (listed.empty() ? "" : ", ") + std::string(dtype_name(allowed));
    throw GraphError(op.name + "'s input " + port.name + " cannot be " + dtype_name(type) +
                     ": CANN's catalogue lists " + listed);
}

}  // namespace npu::graph
