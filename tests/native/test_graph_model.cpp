// The model reader on bytes that are no model, under the sanitizers: any bytes give a model or a GraphError.
#include <cstdlib>
#include <random>
#include <string>

#include "check.h"
#include "graph/model.h"

using namespace npu::graph;

namespace {

std::string varint(std::size_t value) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    return out + static_cast<char>(value);
}

/// A field with bytes: a text or a message.
std::string field(unsigned number, const std::string& content) {
    return varint(number << 3 | 2) + varint(content.size()) + content;
}
std::string number(unsigned field, std::size_t value) { return varint(field << 3) + varint(value); }

std::string attribute(const std::string& name, const std::string& value) {
    return field(10, field(1, name) + field(2, value));
}

std::string descriptor(std::size_t dtype, const std::string& dims) {
    return field(1, "x") + number(2, dtype) + field(3, field(1, dims));
}

std::string valid_model() {
    std::string data = field(1, "x") + field(2, "Data") + attribute("index", number(3, 0)) +
                       field(34, descriptor(1, "\x02\x03"));
    std::string axes =
        field(1, "axes") + field(2, "Const") +
        attribute("value", field(12, field(1, descriptor(8, "\x01")) + field(2, std::string(8, '\0'))));
    std::string sum = field(1, "sum") + field(2, "ReduceSum") + field(5, "x:0") + field(5, "axes:0") +
                      field(5, "x:-1") + attribute("keep_dims", number(5, 1)) +
                      attribute("_names", field(1, field(2, "a") + field(2, "b")));
    std::string softmax = field(1, "softmax") + field(2, "SoftmaxV2") + field(5, "sum:0") +
                          attribute("axes", field(1, field(3, "\x01")));
    std::string output = field(1, "out") + field(2, "NetOutput") + field(5, "softmax:0");
    std::string graph = field(1, "main");
    for (const std::string& node : {data, axes, sum, softmax, output}) graph += field(6, node);
    return field(1, "model") + field(7, graph);
}

/// Whether the bytes are a model that verifies.
bool accepted(const std::string& bytes) {
    try {
        // A heap copy of the exact size, so that a read beyond it is seen.
        std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(bytes.data()),
                                    reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
        Model model = read_model(copy);
        verify(model);
        return true;
    } catch (const GraphError&) {
        return false;
    }
}

const std::string model = valid_model();
std::mt19937 chance(20);

}  // namespace

CASE(a_model_is_accepted_and_cut_off_anywhere_is_not_read_beyond_its_end) {
    HOLDS(accepted(model));
    for (std::size_t length = 0; length < model.size(); ++length) accepted(model.substr(0, length));
}

CASE(every_bit_may_be_flipped) {
    for (std::size_t bit = 0; bit < model.size() * 8; ++bit) {
        std::string broken = model;
        broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
        accepted(broken);
    }
}

CASE(bytes_may_be_random) {
    for (int round = 0; round < 5000; ++round) {
        std::string bytes(chance() % 200, '\0');
        for (char& byte : bytes) byte = static_cast<char>(chance());
        accepted(bytes);
    }
}

CASE(parts_may_be_missing_or_twice) {
    for (int round = 0; round < 5000; ++round) {
        std::size_t from = chance() % model.size(), to = chance() % model.size();
        accepted(model.substr(0, from) + model.substr(to));
    }
}

int main() { return check::run_all() | check::failures; }
