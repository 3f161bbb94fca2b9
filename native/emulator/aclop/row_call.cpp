#include "aclop/row_call.h"

#include <algorithm>
#include <set>

#include "aclop/attribute_rule.h"

namespace npu::aclop {
namespace {

using emulator::Arg;
using emulator::Args;
using emulator::Kernel;
using emulator::TensorArg;

struct AttributeToArg {
    const std::string& name;
    Arg operator()(bool value) const { return value; }
    Arg operator()(int64_t value) const { return value; }
    Arg operator()(double value) const { return value; }
    Arg operator()(const std::string& value) const { return value; }
    Arg operator()(const std::vector<bool>& value) const {
        return emulator::BoolList(value.begin(), value.end());
    }
    Arg operator()(const std::vector<int64_t>& value) const { return value; }
    Arg operator()(const std::vector<double>& value) const { return value; }
    Arg operator()(const std::vector<std::string>&) const {
        throw Refusal("attribute " + name + " is a list of strings, which no kernel takes");
    }
    Arg operator()(const std::vector<std::vector<int64_t>>&) const {
        throw Refusal("attribute " + name + " is a list of lists, which no kernel takes");
    }
};

bool ends_in_list(const Kernel& kernel) { return !kernel.letters.empty() && kernel.letters.back() == 'L'; }

/// How many of a row's parameters are inputs: the attributes are counted, and so are the outputs.
std::size_t count_inputs(const Kernel& kernel, std::size_t given_outputs) {
    const auto attributes = static_cast<std::size_t>(std::ranges::count_if(kernel.attributes, is_parameter));
    const std::size_t outputs = ends_in_list(kernel) ? 1 : given_outputs;
    if (kernel.letters.size() < attributes + outputs)
        throw Refusal("it has fewer than " + std::to_string(given_outputs) + " outputs in the emulator");
    return kernel.letters.size() - attributes - outputs;
}

Args input_args(const std::vector<at::Tensor>& given, std::string_view letters) {
    const auto lists = static_cast<std::size_t>(std::ranges::count(letters, 'L'));
    const std::size_t single = letters.size() - lists;
    if (lists > 1 && given.size() != letters.size())
        throw Refusal(
            "it has more than one list of inputs, which cannot be told apart unless each has one tensor and "
            "every "
            "other input is given");
    if (lists == 0 && given.size() > single)
        throw Refusal("it takes " + std::to_string(single) + " inputs, was given " +
                      std::to_string(given.size()));
    const std::size_t listed = lists > 1 ? 1 : given.size() > single ? given.size() - single : 0;
    Args args;
    std::size_t next = 0;
    for (const char letter : letters) {
        if (letter == 'L') {
            args.emplace_back(std::vector<at::Tensor>(given.begin() + next, given.begin() + next + listed));
            next += listed;
        } else {  // absent optional inputs at the end are simply not passed
            args.emplace_back(TensorArg{next < given.size() ? given[next] : at::Tensor()});
            ++next;
        }
    }
    return args;
}

Args spanned_args(const std::vector<at::Tensor>& given, std::string_view letters,
                  const std::vector<InputSpan>& spans) {
    if (spans.size() > letters.size())
        throw Refusal("it takes " + std::to_string(letters.size()) + " inputs, was given " +
                      std::to_string(spans.size()));
    Args args;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const InputSpan span = i < spans.size() ? spans[i] : InputSpan{};
        const auto begin = given.begin() + static_cast<std::ptrdiff_t>(span.first);
        if (letters[i] == 'L') {
            args.emplace_back(
                std::vector<at::Tensor>(begin, begin + static_cast<std::ptrdiff_t>(span.count)));
        } else {
            args.emplace_back(TensorArg{span.count > 0 ? *begin : at::Tensor()});
        }
    }
    return args;
}

void append_attributes(Args& args, const AttributeValues& values, const Kernel& kernel) {
    std::set<std::string_view> known;
    for (const auto& text : kernel.attributes) {
        const AttributeRule rule(text);
        known.insert(rule.name);
        const auto found = values.find(rule.name);
        const auto* value = found == values.end() ? nullptr : &found->second;
        if (!is_parameter(text)) {
            if (auto reason = rule.refusal(value)) throw Refusal(*reason);
        } else {
            args.push_back(value ? std::visit(AttributeToArg{text}, *value) : Arg());
        }
    }
    for (const auto& [name, value] : values) {
        const bool hint = name.starts_with('_');  // for the engine: _performance_prior, _exclude_engines
        if (!hint && !known.contains(name))
            throw Refusal("its attribute " + name + " is not implemented by the host emulator");
    }
}

/// An input tensor for a parameter that is a number or a list of them (GE has few attributes where aclnn has
/// scalars). Read when the operator runs: its value may be computed by what is queued before it.
Arg number(const at::Tensor& tensor, char letter) {
    if (!tensor.defined()) return {};
    switch (letter) {
        case 'I': {
            auto values = tensor.reshape({-1}).to(at::kLong).contiguous();
            return std::vector<int64_t>(values.const_data_ptr<int64_t>(),
                                        values.const_data_ptr<int64_t>() + values.numel());
        }
        case 'S':
            return tensor.item();
        case 'i':
            return tensor.item().toLong();
        case 'd':
            return tensor.item().toDouble();
        case 'b':
            return tensor.item().toBool();
        default:
            return TensorArg{tensor};
    }
}

}  // namespace

bool names_attribute(const Kernel& kernel, std::string_view attribute) {
    return std::ranges::any_of(kernel.attributes,
                               [&](const auto& text) { return AttributeRule(text).name == attribute; });
}

RowCall::RowCall(const Kernel& kernel, const std::vector<at::Tensor>& inputs,
                 const AttributeValues& attributes, const std::vector<TensorArg>& outputs,
                 const std::vector<InputSpan>& spans)
    : kernel_(&kernel), outputs_(outputs.size()) {
    const std::size_t count = count_inputs(kernel, outputs.size());
    const auto letters = std::string_view(kernel.letters).substr(0, count);
    args_ = spans.empty() ? input_args(inputs, letters) : spanned_args(inputs, letters, spans);
    for (std::size_t i = 0; i < count; ++i) {
        if (std::holds_alternative<TensorArg>(args_[i]) && kernel.letters[i] != 'T') numbers_.push_back(i);
    }
    append_attributes(args_, attributes, kernel);
    if (ends_in_list(kernel)) {
        std::vector<at::Tensor> tensors;
        for (const auto& output : outputs) tensors.push_back(output.tensor);
        args_.emplace_back(std::move(tensors));
    } else {
        for (const auto& output : outputs) args_.emplace_back(output);
    }
}

void RowCall::run() const {
    if (numbers_.empty()) return emulator::run(*kernel_, args_);
    Args args = args_;
    for (const std::size_t i : numbers_)
        args[i] = number(std::get<TensorArg>(args_[i]).tensor, kernel_->letters[i]);
    emulator::run(*kernel_, args);
}

}  // namespace npu::aclop
