// A call by GE operator name, with descriptors and buffers, becomes a queued call of a row (row_call.h).
#include "aclop/call.h"
#include "aclop/row_call.h"
#include "kernels/dtype.h"
#include "kernels/kernel.h"
#include "runtime/launch.h"

namespace npu::aclop {
namespace {

using emulator::Kernel;
using emulator::TensorArg;

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

class Operation final : public emulator::Task {
  public:
    Operation(RowCall call, std::size_t work) : call_(std::move(call)), work_(work) {}
    void run() override { call_.run(); }
    const char* name() const override { return call_.kernel().name.c_str(); }
    std::size_t work() const override { return work_; }

  private:
    RowCall call_;
    std::size_t work_;
};

using Sinks = std::vector<c10::intrusive_ptr<FoundShape>>;

std::unique_ptr<Operation> prepare(const Call& call, const Kernel& kernel, Sinks& sinks) {
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
        inputs.push_back(tensor_of(*call.input_descs[i], *call.inputs[i], place("input", i)));
    std::vector<TensorArg> outputs;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
        TensorArg arg{tensor_of(*call.output_descs[i], *call.outputs[i], place("output", i))};
        if (call.found_shapes != nullptr) {
            sinks.push_back(c10::make_intrusive<FoundShape>());
            arg.sink = sinks.back();
        }
        outputs.push_back(std::move(arg));
    }
    std::size_t work = 0;
    for (auto* buffer : call.inputs) work += buffer->size;
    for (auto* buffer : call.outputs) work += buffer->size;
    static const AttributeValues none;
    return std::make_unique<Operation>(
        RowCall(kernel, inputs, call.attributes ? call.attributes->values : none, outputs), work);
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
