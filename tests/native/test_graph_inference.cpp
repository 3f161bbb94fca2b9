// Every inference rule on operands and attributes that make no sense, under the sanitizers: a result or a
// GraphError, never anything else.
#include <random>

#include "check.h"
#include "graph/infer.h"

using namespace npu::graph;

namespace {

std::mt19937 chance(20);

std::size_t below(std::size_t limit) { return chance() % limit; }

int64_t some_size() {
    constexpr int64_t kHuge = int64_t{1} << 62;
    constexpr int64_t kSizes[] = {-1, 0, 1, 1, 2, 2, 3, 4, 6, 8, 128, kHuge, kHuge - 1, INT64_MAX};
    return kSizes[below(below(8) ? 10 : std::size(kSizes))];
}

/// What attributes and index inputs hold: small numbers of either sign, now and then the largest there are.
int64_t some_number() {
    constexpr int64_t kNumbers[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, -1'000'000'007, 28, 99};
    return below(40) ? static_cast<int64_t>(below(9)) - 3 : kNumbers[below(std::size(kNumbers))];
}

std::vector<int64_t> some_numbers() {
    std::vector<int64_t> out(below(7));
    for (int64_t& number : out) number = some_number();
    return out;
}

TensorType some_type(const Port& port, DataType common) {
    bool fits =
        port.types.empty() || std::find(port.types.begin(), port.types.end(), common) != port.types.end();
    TensorType out{fits ? common : port.types[below(port.types.size())], {}, below(20) != 0};
    if (out.ranked) out.dims.resize(below(6));
    for (int64_t& size : out.dims) size = some_size();
    return out;
}

/// A value of integers, as large as its type says or not at all.
std::unique_ptr<Constant> some_value(TensorType& type) {
    if ((type.dtype != ACL_INT32 && type.dtype != ACL_INT64) || below(4) == 0) return nullptr;
    std::vector<int64_t> numbers = below(3) ? some_numbers() : std::vector<int64_t>{some_number()};
    type = {type.dtype, {static_cast<int64_t>(numbers.size())}, true};
    if (numbers.size() == 1 && below(2)) type.dims.clear();
    auto out = std::make_unique<Constant>(Constant{type, {}});
    std::size_t size = element_size(type.dtype);
    for (int64_t number : numbers) {
        auto* bytes = reinterpret_cast<const std::byte*>(&number);
        out->data.insert(out->data.end(), bytes, bytes + size);
    }
    return out;
}

Attribute some_attribute(const AttributeDef& def) {
    constexpr const char* kTexts[] = {"NCHW", "NHWC",  "none",       "mean",      "BSND", "BSH", "TND",
                                      "SAME", "VALID", "CALCULATED", "ij,jk->ik", "->",   ""};
    if (def.type == "Int") return some_number();
    if (def.type == "Float") return static_cast<double>(some_number());
    if (def.type == "Bool") return below(2) == 1;
    if (def.type == "String") return std::string(kTexts[below(std::size(kTexts))]);
    if (def.type == "Type") return TypeAttribute{below(2) ? ACL_FLOAT : ACL_INT64};
    if (def.type == "ListInt") return some_numbers();
    if (def.type == "ListFloat") return std::vector<double>(below(4), 1.0);
    if (def.type == "ListBool") return std::vector<bool>(below(4), true);
    if (def.type == "ListListInt") return std::vector<std::vector<int64_t>>(below(3), some_numbers());
    if (def.type == "Tensor")
        return std::make_shared<const Constant>(Constant{{ACL_FLOAT, {}, true}, std::vector<std::byte>(4)});
    return def.fallback.value_or(Attribute(std::vector<TypeAttribute>{}));
}

/// Whether the rule gave a result.
bool infers(const OperatorDef& op) {
    constexpr DataType kCommon[] = {ACL_FLOAT, ACL_FLOAT16, ACL_INT32, ACL_INT64, ACL_BOOL};
    DataType common = kCommon[below(std::size(kCommon))];
    std::vector<Operand> operands;
    std::vector<std::unique_ptr<Constant>> values;
    std::vector<std::string> names;
    for (const Port& port : op.inputs) {
        std::size_t count = port.arity == Arity::dynamic ? below(4) : 1;
        for (std::size_t element = 0; element < count; ++element) {
            names.push_back(port.arity == Arity::dynamic ? port.name + std::to_string(element) : port.name);
            operands.emplace_back();
            if (port.arity == Arity::optional && below(2)) continue;
            operands.back().type = some_type(port, common);
            values.push_back(some_value(operands.back().type));
            operands.back().value = values.back().get();
        }
    }
    Attributes attributes;
    for (const AttributeDef& def : op.attributes)
        if (def.required || below(2)) attributes.emplace(def.name, some_attribute(def));
    try {
        for (const Inferred& result : infer(op, attributes, operands, names)) result.type.text();
        return true;
    } catch (const GraphError&) {
        return false;
    }
}

}  // namespace

CASE(every_rule_gives_a_result_or_a_graph_error) {
    int results = 0, operators = 0;
    for (const std::string& name : inferred_operators()) {
        const OperatorDef& op = *find_operator(name);
        ++operators;
        for (int round = 0; round < 300; ++round) results += infers(op);
    }
    HOLDS(operators > 400);
    HOLDS(results > 300 * operators / 20);  // else the operands are so wild that no rule is tried
}

int main() { return check::run_all() | check::failures; }
