#include "graph/catalogue.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "graph/catalogue_table.h"
#include "graph/datatypes.h"

namespace npu::graph {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    if (text.empty()) return parts;
    for (std::size_t at; (at = text.find(separator)) != text.npos; text.remove_prefix(at + 1))
        parts.push_back(text.substr(0, at));
    parts.push_back(text);
    return parts;
}

[[noreturn]] void unreadable(std::string_view text) {
    throw std::logic_error("the operator catalogue was generated wrong: " + std::string(text));
}

template <class T>
T number(std::string_view text) {
    T value{};
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{}) unreadable(text);
    return value;
}

DataType type_named(std::string_view name) {
    if (name == "UNDEFINED") return ACL_DT_UNDEFINED;
    for (const DataTypeRow& row : data_types())
        if (name == row.ge) return static_cast<DataType>(row.number);
    unreadable(name);
}

int64_t integer(std::string_view text) {
    constexpr int64_t kUndefined = 28;  // ge::DT_UNDEFINED as an integer
    if (!text.starts_with("DT_")) return number<int64_t>(text);
    DataType type = type_named(text.substr(3));
    return type == ACL_DT_UNDEFINED ? kUndefined : static_cast<int64_t>(type);
}

template <class Element, class Convert>
std::vector<Element> list(std::string_view text, Convert convert) {
    std::vector<Element> out;
    for (std::string_view item : split(text, ',')) out.push_back(convert(item));
    return out;
}

Attribute parse_default(std::string_view type, std::string_view text) {
    if (type == "Int") return integer(text);
    if (type == "Float") return number<double>(text);
    if (type == "Bool") return text == "true";
    if (type == "String") return std::string(text);
    if (type == "Type") return TypeAttribute{type_named(text.substr(3))};
    if (type == "ListInt") return list<int64_t>(text, number<int64_t>);
    if (type == "ListFloat") return list<double>(text, number<double>);
    if (type == "ListBool") return list<bool>(text, [](std::string_view item) { return item == "true"; });
    if (type == "ListString") return std::vector<std::string>{};
    if (type == "ListType") return std::vector<TypeAttribute>{};
    if (type == "ListListInt") return std::vector<std::vector<int64_t>>(number<std::size_t>(text));
    unreadable(type);
}

using TypeSets = std::vector<std::vector<DataType>>;

Port parse_port(const std::vector<std::string_view>& words, const TypeSets& sets) {
    Arity arity = words.at(2) == "required"   ? Arity::required
                  : words.at(2) == "optional" ? Arity::optional
                                              : Arity::dynamic;
    int set = number<int>(words.at(3));
    return {std::string(words[1]), arity, set < 0 ? std::vector<DataType>{} : sets.at(set)};
}

AttributeDef parse_attribute(std::string_view line) {
    auto words = split(line, ' ');
    std::string_view type = words.at(2), value = line.substr(words[3].data() - line.data());
    AttributeDef out{std::string(words[1]), std::string(type), value == "!", std::nullopt};
    if (value.starts_with('=')) out.fallback = parse_default(type, value.substr(1));
    return out;
}

OperatorDef parse_operator(std::string_view text, const TypeSets& sets) {
    OperatorDef op;
    for (std::string_view line : split(text, '\n')) {
        auto words = split(line, ' ');
        if (words.size() == 1) {
            op.name = line;
        } else if (words[0] == "i") {
            op.inputs.push_back(parse_port(words, sets));
        } else if (words[0] == "o") {
            op.outputs.push_back(parse_port(words, sets));
        } else if (words[0] == "a") {
            op.attributes.push_back(parse_attribute(line));
        } else {
            op.subgraphs.emplace_back(words[1]);
            op.dynamic_subgraphs = words.at(2) == "dynamic";
        }
    }
    return op;
}

struct Catalogue {
    std::vector<OperatorDef> operators;
    std::unordered_map<std::string_view, const OperatorDef*> by_name;

    Catalogue() {
        TypeSets sets;
        for (std::string_view text : type_set_texts()) {
            sets.emplace_back();
            for (std::string_view name : split(text, ' ')) sets.back().push_back(type_named(name));
        }
        operators.reserve(operator_texts().size());
        for (const char* text : operator_texts()) operators.push_back(parse_operator(text, sets));
        for (const OperatorDef& op : operators) by_name[op.name] = &op;
    }
};

const Catalogue& catalogue() {
    static const Catalogue all;
    return all;
}

/// "x12" for the port "x".
bool is_element_of(std::string_view name, std::string_view port) {
    if (!name.starts_with(port) || name.size() == port.size()) return false;
    name.remove_prefix(port.size());
    return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<Span> spans_by_name(const OperatorDef& op, std::size_t count,
                                std::span<const std::string> names) {
    std::vector<Span> spans;
    std::size_t at = 0;
    for (const Port& port : op.inputs) {
        Span span{at, 0};
        if (port.arity == Arity::dynamic) {
            while (at < count && is_element_of(names[at], port.name)) ++at;
        } else if (at < count &&
                   (port.arity == Arity::required || names[at] == port.name || names[at].empty())) {
            ++at;
        }
        span.count = at - span.first;
        spans.push_back(span);
    }
    if (at < count)
        throw GraphError(
            op.name + " has no input named \"" + names[at] + "\" at place " + std::to_string(at) +
            ": inputs are named after the catalogue, those of a dynamic one with a number (x0, x1)");
    return spans;
}

}  // namespace

const AttributeDef* OperatorDef::attribute(std::string_view wanted) const {
    for (const AttributeDef& def : attributes)
        if (def.name == wanted) return &def;
    return nullptr;
}

const OperatorDef* find_operator(std::string_view type) {
    const auto& names = catalogue().by_name;
    auto found = names.find(type);
    return found == names.end() ? nullptr : found->second;
}

std::vector<std::string> operator_names() {
    std::vector<std::string> names;
    for (const OperatorDef& op : catalogue().operators) names.push_back(op.name);
    return names;
}

std::vector<Span> input_spans(const OperatorDef& op, std::size_t count, std::span<const std::string> names) {
    auto of = [&](Arity arity) {
        return static_cast<std::size_t>(std::ranges::count(op.inputs, arity, &Port::arity));
    };
    std::size_t dynamic = of(Arity::dynamic), fixed = op.inputs.size() - dynamic;
    if (dynamic > 1 || (dynamic == 1 && of(Arity::optional) > 0 && names.size() == count)) {
        if (names.size() != count)
            throw GraphError(op.name + " has several dynamic inputs: the names of its " +
                             std::to_string(count) + " inputs are needed to tell them apart, and " +
                             std::to_string(names.size()) + " are given");
        return spans_by_name(op, count, names);
    }
    std::size_t needed = of(Arity::required);
    if (count < needed || (dynamic == 0 && count > fixed))
        throw GraphError(op.name + " takes " + (count < needed ? "at least " : "at most ") +
                         std::to_string(count < needed ? needed : fixed) + " inputs, and " +
                         std::to_string(count) + " are given");
    std::vector<Span> spans;
    std::size_t at = 0;
    for (const Port& port : op.inputs) {
        std::size_t length =
            port.arity == Arity::dynamic ? count - std::min(count, fixed) : std::size_t{at < count};
        spans.push_back({at, length});
        at += length;
    }
    return spans;
}

}  // namespace npu::graph
