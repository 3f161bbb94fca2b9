// Loading a program's models on a device, and whether they are what the program says.
#include "cann/api.h"
#include "cann/dtype.h"
#include "pjrt/plan.h"

namespace npu::pjrt {
namespace {

// 0 where it depends on the run or the element type is not one of ours.
std::size_t port_bytes(const cann::Port& port) {
    const cann::DType* type = cann::find_dtype(port.type);
    std::size_t bytes = type == nullptr ? 0 : type->size;
    for (int64_t extent : port.shape) bytes = extent < 0 ? 0 : bytes * static_cast<std::size_t>(extent);
    return bytes;
}

void check_ports(const Block& block, const Slots& slots, const std::vector<cann::Port>& ports, uint32_t model,
                 const char* what) {
    const std::string of = std::string(what) + "s of model " + std::to_string(model) + " of the program";
    if (slots.size() != ports.size())
        throw invalid("the " + of + " are " + std::to_string(ports.size()) + ", the program has " +
                      std::to_string(slots.size()));
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const Shape& shape = block.slots[slots[i]].shape;
        if (port_bytes(ports[i]) != shape.bytes)
            throw invalid("among the " + of + " number " + std::to_string(i) + " has " +
                          std::to_string(port_bytes(ports[i])) + " bytes, the program has " + shape.text());
    }
}

void check_block(const Sessions& sessions, const Block& block) {
    for (const Step& step : block.steps) {
        if (const auto* run = std::get_if<RunModel>(&step.work)) {
            const cann::GraphSession& model = sessions.model(run->model);
            check_ports(block, run->inputs, model.inputs(), run->model, "input");
            check_ports(block, run->outputs, model.outputs(), run->model, "output");
        } else if (const auto* loop = std::get_if<While>(&step.work)) {
            check_block(sessions, *loop->condition);
            check_block(sessions, *loop->body);
        } else if (const auto* branch = std::get_if<Case>(&step.work)) {
            for (const auto& each : branch->branches) check_block(sessions, *each);
        }
    }
}

}  // namespace

std::size_t work_bytes(std::span<const std::byte> model) {
    std::size_t work = 0, weights = 0;
    cann::api::call(cann::api::aclmdlQuerySizeFromMem, "reading the sizes of a model",
                    static_cast<const void*>(model.data()), model.size(), &work, &weights);
    return work + weights;
}

Sessions::Sessions(std::shared_ptr<const Program> program, Device& device, const PJRT_LogicalDeviceIds& place)
    : program_(std::move(program)), device_(device) {
    for (const auto& model : program_->models)
        models_.push_back(cann::GraphSession::load(model, device_.stream()));
    check_block(*this, *program_->body);
    if (!program_->takes_place) return;
    const uint32_t numbers[] = {static_cast<uint32_t>(place.replica), static_cast<uint32_t>(place.partition)};
    place_ = Storage::allocate(device_.default_memory(), sizeof numbers);
    device_.stream()->synchronize();  // the memory may be what the stream still works on
    copy_now(device_, place_->address(), &place_->memory(), numbers, nullptr, sizeof numbers);
}

}  // namespace npu::pjrt
