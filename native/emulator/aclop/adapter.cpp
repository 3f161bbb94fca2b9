// A call by GE operator name becomes a row of the table of kernels: inputs by position, attributes in
// the order that the row names, outputs.
#include <algorithm>
#include <set>

#include "aclop/attribute_rule.h"
#include "aclop/call.h"
#include "kernels/dtype.h"
#include "kernels/kernel.h"
#include "runtime/launch.h"

namespace npu::aclop {
namespace {

using emulator::Arg;
using emulator::Args;
using emulator::Kernel;
using emulator::TensorArg;

/// Thrown while a call is taken apart; becomes ACL_ERROR_INVALID_PARAM, prefixed with the operator's name.
struct Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

std::string place(const char* kind, std::size_t index) {
    return std::string(kind) + " " + std::to_string(index);
}

/// The shape that a kernel found for one output.
struct FoundShape final : emulator::ShapeSink {
    std::optional<std::vector<int64_t>> sizes;
    void set_view_shape(at::IntArrayRef shape) override { sizes = shape.vec(); }
};

/// A view of the caller's memory; a copy where the value lives on the host, whose owner may free it at once.
at::Tensor tensor_of(const aclTensorDesc& desc, const aclDataBuffer& buffer, const std::string& what) {
    if (desc.type == ACL_DT_UNDEFINED) return {};
    const auto type = emulator::scalar_type(desc.type);
    const auto format = desc.storage_format == ACL_FORMAT_UNDEFINED ? desc.format : desc.storage_format;
    if (!type)
        throw Refusal(what + " has type " + emulator::data_type_name(desc.type) +
                      ", which ATen's CPU code does not have");
    if (!emulator::is_strided(format))
        throw Refusal(
            what + " has the tiled format " + std::to_string(format) +
            "; the emulator computes on strided formats only (torch.npu.config.allow_internal_format = "
            "False)");
    for (const int64_t dim : desc.dims) {
        if (dim < 0) throw Refusal(what + " has an unknown dimension; give its size");
    }
    const auto wanted = c10::multiply_integers(desc.dims) * static_cast<int64_t>(c10::elementSize(*type));
    const bool constant = desc.constant.has_value();
    const std::size_t size = constant ? desc.constant->size() : buffer.size;
    if (static_cast<std::size_t>(wanted) > size)
        throw Refusal(what + " takes " + std::to_string(wanted) + " bytes, its buffer has " +
                      std::to_string(size));
    auto* data = constant ? const_cast<std::byte*>(desc.constant->data()) : buffer.data;
    auto tensor = at::for_blob(data, desc.dims).options(at::TensorOptions().dtype(*type)).make_tensor();
    return constant || desc.placement != ACL_MEMTYPE_DEVICE ? tensor.clone() : tensor;
}

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

/// How many of a row's parameters are inputs: the attributes are counted, and so are the outputs.
struct Layout {
    std::size_t inputs, attributes, outputs;
    Layout(const Kernel& kernel, std::size_t given_outputs)
        : attributes(std::ranges::count_if(kernel.attributes, is_parameter)) {
        const bool listed = !kernel.letters.empty() && kernel.letters.back() == 'L';
        outputs = listed ? 1 : given_outputs;
        if (kernel.letters.size() < attributes + outputs)
            throw Refusal("it has fewer than " + std::to_string(given_outputs) + " outputs in the emulator");
        inputs = kernel.letters.size() - attributes - outputs;
    }
};

std::vector<Arg> input_args(const Call& call, const std::string& letters) {
    std::vector<at::Tensor> given;
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
        given.push_back(tensor_of(*call.input_descs[i], *call.inputs[i], place("input", i)));
    const auto lists = static_cast<std::size_t>(std::ranges::count(letters, 'L'));
    const std::size_t single = letters.size() - lists;
    if (lists > 1 && given.size() != letters.size())
        throw Refusal(
            "it has more than one list of inputs, which cannot be told apart unless each has one "
            "tensor and every other input is given");
    if (lists == 0 && given.size() > single)
        throw Refusal("it takes " + std::to_string(single) + " inputs, was given " +
                      std::to_string(given.size()));
    const std::size_t listed = lists > 1 ? 1 : given.size() > single ? given.size() - single : 0;
    std::vector<Arg> args;
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

void append_attributes(Args& args, const Call& call, const Kernel& kernel) {
    static const decltype(aclopAttr::values) none;
    const auto& values = call.attributes ? call.attributes->values : none;
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
Arg coerce(const at::Tensor& tensor, char letter) {
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

class Operation final : public emulator::Task {
  public:
    Operation(const Kernel& kernel, Args args, std::size_t inputs, std::size_t work)
        : kernel_(kernel), args_(std::move(args)), inputs_(inputs), work_(work) {}
    void run() override {
        for (std::size_t i = 0; i < inputs_; ++i) {
            if (auto* arg = std::get_if<TensorArg>(&args_[i]); arg && kernel_.letters[i] != 'T')
                args_[i] = coerce(at::Tensor(arg->tensor), kernel_.letters[i]);
        }
        emulator::run(kernel_, args_);
    }
    const char* name() const override { return kernel_.name.c_str(); }
    std::size_t work() const override { return work_; }

  private:
    const Kernel& kernel_;
    Args args_;
    std::size_t inputs_, work_;
};

using Sinks = std::vector<c10::intrusive_ptr<FoundShape>>;

std::unique_ptr<Operation> prepare(const Call& call, const Kernel& kernel, Sinks& sinks) {
    const Layout layout(kernel, call.outputs.size());
    Args args = input_args(call, kernel.letters.substr(0, layout.inputs));
    append_attributes(args, call, kernel);
    std::vector<TensorArg> outputs;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
        TensorArg arg{tensor_of(*call.output_descs[i], *call.outputs[i], place("output", i))};
        if (call.found_shapes != nullptr) {
            sinks.push_back(c10::make_intrusive<FoundShape>());
            arg.sink = sinks.back();
        }
        outputs.push_back(std::move(arg));
    }
    if (!kernel.letters.empty() && kernel.letters.back() == 'L') {
        std::vector<at::Tensor> tensors;
        for (auto& output : outputs) tensors.push_back(output.tensor);
        args.emplace_back(std::move(tensors));
    } else {
        for (auto& output : outputs) args.emplace_back(std::move(output));
    }
    std::size_t work = 0;
    for (auto* buffer : call.inputs) work += buffer->size;
    for (auto* buffer : call.outputs) work += buffer->size;
    return std::make_unique<Operation>(kernel, std::move(args), layout.inputs, work);
}

/// Who waits for shapes must not go on without them.
aclError refuse(const Call& call, aclError code, const std::string& reason) {
    std::string sentence = std::string("GE operator ") + call.type + reason;
    return call.found_shapes == nullptr ? emulator::refuse(call.stream, code, std::move(sentence))
                                        : emulator::fail(code, std::move(sentence));
}

aclError execute(const Call& call) {
    const auto* kernel = emulator::find_ge(call.type);
    if (kernel == nullptr) {
        return refuse(call, ACL_ERROR_OP_NOT_FOUND,
                      " is not implemented by the host emulator of CANN; docs/operators.md lists what is");
    }
    Sinks sinks;
    if (const aclError code = emulator::launch(call.stream, prepare(call, *kernel, sinks));
        code != ACL_SUCCESS)
        return code;
    if (call.found_shapes == nullptr) return ACL_SUCCESS;
    if (const aclError code = aclrtSynchronizeStream(call.stream); code != ACL_SUCCESS) return code;
    for (std::size_t i = 0; i < sinks.size(); ++i) {
        if (sinks[i]->sizes) call.found_shapes[i]->dims = *sinks[i]->sizes;
    }
    return ACL_SUCCESS;
}

}  // namespace
}  // namespace npu::aclop

extern "C" __attribute__((visibility("default"))) aclError
npu_emulator_aclop_execute(const npu::aclop::Call& call) {
    try {
        return npu::aclop::execute(call);
    } catch (const std::exception& error) {
        return npu::aclop::refuse(call, ACL_ERROR_INVALID_PARAM, std::string(": ") + error.what());
    }
}
