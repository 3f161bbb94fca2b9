#include "graph/model_attributes.h"

#include "graph/datatypes.h"

namespace npu::graph {
namespace {

constexpr int64_t kUnknownRank = -2;
constexpr int64_t kGeUndefined = 28;

/// Numbers of the fields in ge_ir.proto.
namespace attr_def {
enum : uint32_t { list = 1, s = 2, i = 3, f = 4, b = 5, bt = 7, t = 12, list_list_int = 14, dt = 15 };
}
namespace list_value {
enum : uint32_t { s = 2, i = 3, f = 4, b = 5, bt = 7, dt = 12, val_type = 20 };
}
namespace list_type {
enum : int64_t { none = 0, string = 1, integer = 2, real = 3, boolean = 4, bytes = 5, data_type = 10 };
}

TypeAttribute type_attribute(int64_t number) {
    if (number == kGeUndefined || number == -1) return {ACL_DT_UNDEFINED};
    if (number < 0 || number > INT32_MAX || !find_data_type(static_cast<DataType>(number)))
        throw GraphError("there is no data type with ge::DataType's number " + std::to_string(number));
    return {static_cast<DataType>(number)};
}

template <class To>
std::vector<To> each(const std::vector<int64_t>& numbers, To (*convert)(int64_t)) {
    std::vector<To> out;
    out.reserve(numbers.size());
    for (int64_t number : numbers) out.push_back(convert(number));
    return out;
}

Attribute read_list(Bytes bytes) {
    std::vector<std::string> texts;
    std::vector<int64_t> numbers, bools, types;
    std::vector<double> reals;
    int64_t stated = list_type::none;
    Message message(bytes);
    for (Field field; message.next(field);) {
        switch (field.number) {
            case list_value::s:
            case list_value::bt:
                texts.emplace_back(field.text());
                break;
            case list_value::i:
                field.append(numbers);
                break;
            case list_value::f:
                field.append(reals);
                break;
            case list_value::b:
                field.append(bools);
                break;
            case list_value::dt:
                field.append(types);
                break;
            case list_value::val_type:
                stated = field.integer();
                break;
        }
    }
    auto is = [&](int64_t type, const auto& elements) { return !elements.empty() || stated == type; };
    if (is(list_type::string, texts) || stated == list_type::bytes) return texts;
    if (is(list_type::real, reals)) return reals;
    if (is(list_type::boolean, bools)) return each<bool>(bools, [](int64_t b) { return b != 0; });
    if (is(list_type::data_type, types)) return each<TypeAttribute>(types, type_attribute);
    return numbers;
}

/// ListListInt and ListListFloat alike: field 1 holds lists, whose field 1 holds the numbers.
std::vector<std::vector<int64_t>> read_lists(Bytes bytes) {
    std::vector<std::vector<int64_t>> out;
    Message message(bytes);
    for (Field list; message.next(list);) {
        if (list.number != 1) continue;
        out.emplace_back();
        Message inner(list.message());
        for (Field field; inner.next(field);)
            if (field.number == 1) field.append(out.back());
    }
    return out;
}

std::size_t byte_count(const TensorType& type) {
    std::size_t bytes = element_size(type.dtype);
    for (int64_t size : type.dims)
        if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes))
            throw GraphError("a constant of type " + type.text() + " cannot be");
    return bytes;
}

std::shared_ptr<const Constant> read_constant(Bytes bytes) {
    auto out = std::make_shared<Constant>();
    Bytes data;
    Message message(bytes);
    for (Field field; message.next(field);) {
        if (field.number == 1) out->type = read_descriptor(field.message()).type;
        if (field.number == 2) data = field.message();
    }
    if (!out->type.ranked) throw GraphError("a constant needs a shape, and its rank is not known");
    if (element_size(out->type.dtype) > 0 && byte_count(out->type) != data.size())
        throw GraphError("a constant of type " + out->type.text() + " takes " +
                         std::to_string(byte_count(out->type)) + " bytes, and " +
                         std::to_string(data.size()) + " are given");
    out->data.assign(data.begin(), data.end());
    return out;
}

/// Null where the kind is none that an operator takes.
std::optional<Attribute> read_value(Bytes bytes) {
    std::optional<Attribute> out;
    Message message(bytes);
    for (Field field; message.next(field);) {
        switch (field.number) {
            case attr_def::list:
                out = read_list(field.message());
                break;
            case attr_def::s:
            case attr_def::bt:
                out = std::string(field.text());
                break;
            case attr_def::i:
                out = field.integer();
                break;
            case attr_def::f:
                out = field.real();
                break;
            case attr_def::b:
                out = field.integer() != 0;
                break;
            case attr_def::t:
                out = read_constant(field.message());
                break;
            case attr_def::list_list_int:
                out = read_lists(field.message());
                break;
            case attr_def::dt:
                out = type_attribute(field.integer());
                break;
        }
    }
    return out;
}

void read_shape(Bytes bytes, TensorType& type) {
    Message message(bytes);
    for (Field field; message.next(field);)
        if (field.number == 1) field.append(type.dims);
    if (type.dims == std::vector<int64_t>{kUnknownRank}) {
        type.dims.clear();
        type.ranked = false;
    }
    for (int64_t size : type.dims)
        if (size < kUnknown) throw GraphError("a shape has the size " + std::to_string(size));
}

}  // namespace

Descriptor read_descriptor(Bytes bytes) {
    Descriptor out;
    Message message(bytes);
    for (Field field; message.next(field);) {
        if (field.number == 1) out.name = field.text();
        if (field.number == 2) out.type.dtype = from_proto(field.integer());
        if (field.number == 3) read_shape(field.message(), out.type);
    }
    return out;
}

void read_attribute(Bytes entry, Attributes& out) {
    std::string name;
    Bytes value;
    Message message(entry);
    for (Field field; message.next(field);) {
        if (field.number == 1) name = field.text();
        if (field.number == 2) value = field.message();
    }
    try {
        if (auto attribute = read_value(value)) out.insert_or_assign(std::move(name), *std::move(attribute));
    } catch (const GraphError& error) {
        throw GraphError("attribute " + quoted(name) + ": " + error.what());
    }
}

DataType from_proto(int64_t number) {
    if (number == 0) return ACL_DT_UNDEFINED;
    for (const DataTypeRow& row : data_types())
        if (row.proto == number) return static_cast<DataType>(row.number);
    throw GraphError("there is no data type with the model protobuf's number " + std::to_string(number));
}

int64_t to_proto(DataType type) {
    const DataTypeRow* row = find_data_type(type);
    return row ? row->proto : 0;
}

}  // namespace npu::graph
