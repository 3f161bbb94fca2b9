#include "cann/graph_session.h"

#include <algorithm>

#include "cann/api.h"

namespace npu::cann {
namespace {

struct DestroyDesc {
    void operator()(aclmdlDesc* desc) const { api::aclmdlDestroyDesc(desc); }
};

using Describe = Function<aclError(const aclmdlDesc*, std::size_t, aclmdlIODims*)>;

// The functions that tell about inputs, and those about outputs.
struct Side {
    Function<std::size_t(aclmdlDesc*)>& count;
    Function<std::size_t(aclmdlDesc*, std::size_t)>& bytes;
    Describe& dims;
    Function<const char*(const aclmdlDesc*, std::size_t)>& name;
    Function<aclDataType(const aclmdlDesc*, std::size_t)>& type;
};
const Side kInputs{api::aclmdlGetNumInputs, api::aclmdlGetInputSizeByIndex, api::aclmdlGetInputDims,
                   api::aclmdlGetInputNameByIndex, api::aclmdlGetInputDataType};
const Side kOutputs{api::aclmdlGetNumOutputs, api::aclmdlGetOutputSizeByIndex, api::aclmdlGetOutputDims,
                    api::aclmdlGetOutputNameByIndex, api::aclmdlGetOutputDataType};

std::vector<Port> ports(aclmdlDesc* desc, const Side& side) {
    std::vector<Port> all;
    for (std::size_t i = 0, n = side.count(desc); i < n; ++i) {
        aclmdlIODims dims{};
        api::call(side.dims, "asking for the shape of a model's port", desc, i, &dims);
        const char* name = side.name(desc, i);
        all.push_back({name == nullptr ? "" : name, side.type(desc, i),
                       std::vector<int64_t>(dims.dims, dims.dims + dims.dimCount), side.bytes(desc, i)});
    }
    return all;
}

bool dynamic(const Port& port) {
    return std::ranges::any_of(port.shape, [](int64_t extent) { return extent < 0; });
}

// A list of buffers as aclmdl takes it. Destroying a dataset leaves its data buffers, so they are kept here
// too.
class Dataset {
  public:
    Dataset() : handle_(api::aclmdlCreateDataset()) {
        if (handle_ == nullptr) throw std::bad_alloc();
    }
    ~Dataset() {
        api::aclmdlDestroyDataset(handle_);
        for (aclDataBuffer* buffer : buffers_) api::aclDestroyDataBuffer(buffer);
        for (aclTensorDesc* desc : descs_) api::aclDestroyTensorDesc(desc);
    }
    Dataset(const Dataset&) = delete;
    Dataset& operator=(const Dataset&) = delete;

    void add(const Buffer& buffer, aclDataType type) {
        aclDataBuffer* data = api::aclCreateDataBuffer(buffer.address, buffer.bytes);
        if (data == nullptr) throw std::bad_alloc();
        buffers_.push_back(data);
        api::call(api::aclmdlAddDatasetBuffer, "listing the buffers of a model's run", handle_, data);
        if (!buffer.shape) return;
        aclTensorDesc* desc = api::aclCreateTensorDesc(type, static_cast<int>(buffer.shape->size()),
                                                       buffer.shape->data(), ACL_FORMAT_ND);
        if (desc == nullptr) throw std::bad_alloc();
        descs_.push_back(desc);
        api::call(api::aclmdlSetDatasetTensorDesc, "telling the shape of a model's input", handle_, desc,
                  buffers_.size() - 1);
    }
    aclmdlDataset* handle() const { return handle_; }

    /// The shape that a run gave to a buffer.
    std::vector<int64_t> shape(std::size_t index) const {
        aclTensorDesc* desc = api::aclmdlGetDatasetTensorDesc(handle_, index);
        if (desc == nullptr) return {};
        std::vector<int64_t> dims(api::aclGetTensorDescNumDims(desc));
        for (std::size_t i = 0; i < dims.size(); ++i)
            api::call(api::aclGetTensorDescDimV2, "asking for the shape of a model's output", desc, i,
                      &dims[i]);
        return dims;
    }

  private:
    aclmdlDataset* handle_;
    std::vector<aclDataBuffer*> buffers_;
    std::vector<aclTensorDesc*> descs_;
};

void fill(Dataset& dataset, std::span<const Buffer> buffers, const std::vector<Port>& ports,
          const char* what) {
    if (buffers.size() != ports.size())
        throw std::invalid_argument("the model has " + std::to_string(ports.size()) + " " + what + "s, and " +
                                    std::to_string(buffers.size()) + " buffers were given");
    for (std::size_t i = 0; i < ports.size(); ++i) {
        if (!buffers[i].shape && buffers[i].bytes < ports[i].bytes)
            throw std::invalid_argument(std::string(what) + " " + std::to_string(i) + " (" + ports[i].name +
                                        ") needs " + std::to_string(ports[i].bytes) +
                                        " bytes, its buffer has " + std::to_string(buffers[i].bytes));
        dataset.add(buffers[i], ports[i].type);
    }
}

}  // namespace

struct GraphSession::Model {
    uint32_t id = 0;
    std::shared_ptr<Block> work, weights;  // freed after the model is unloaded
};

std::shared_ptr<GraphSession> GraphSession::load(std::span<const std::byte> model,
                                                 const std::shared_ptr<Stream>& stream) {
    DeviceGuard guard(stream->device());
    auto made = std::make_unique<Model>();
    std::size_t work = 0, weights = 0;
    api::call(api::aclmdlQuerySizeFromMem, "reading the sizes of a model",
              static_cast<const void*>(model.data()), model.size(), &work, &weights);
    const std::shared_ptr<Pool> pool = Pool::of(stream->device());
    if (work > 0) made->work = pool->allocate(stream, work);
    if (weights > 0) made->weights = pool->allocate(stream, weights);
    // The memory may belong to earlier work of the stream, and loading writes it at once.
    stream->synchronize();
    api::call(
        api::aclmdlLoadFromMemWithMem,
        [&] { return "loading a model of " + std::to_string(model.size()) + " bytes"; },
        static_cast<const void*>(model.data()), model.size(), &made->id,
        work > 0 ? made->work->address() : nullptr, work, weights > 0 ? made->weights->address() : nullptr,
        weights);
    return std::shared_ptr<GraphSession>(new GraphSession(stream->device(), std::move(made)));
}

GraphSession::GraphSession(int device, std::unique_ptr<Model> model)
    : device_(device), model_(std::move(model)) {
    try {
        const std::unique_ptr<aclmdlDesc, DestroyDesc> desc(api::aclmdlCreateDesc());
        if (!desc) throw std::bad_alloc();
        api::call(api::aclmdlGetDesc, "asking for a model's description", desc.get(), model_->id);
        inputs_ = ports(desc.get(), kInputs);
        outputs_ = ports(desc.get(), kOutputs);
    } catch (...) {
        api::aclmdlUnload(model_->id);
        throw;
    }
}

GraphSession::~GraphSession() {
    if (closed()) return;
    try {
        DeviceGuard guard(device_);
        api::aclmdlUnload(model_->id);
    } catch (const std::exception&) {  // the device was reset under it
    }
}

void GraphSession::close() {
    std::lock_guard lock(mutex_);
    if (closed()) return;
    DeviceGuard guard(device_);
    const std::unique_ptr<Model> model = std::move(model_);
    api::call(api::aclmdlUnload, "unloading a model", model->id);
}

std::vector<std::vector<int64_t>> GraphSession::run(std::span<const Buffer> inputs,
                                                    std::span<const Buffer> outputs,
                                                    const std::shared_ptr<Stream>& stream) {
    std::lock_guard lock(mutex_);
    if (closed()) throw ClosedError("the graph session is closed; load the model again");
    if (stream->device() != device_)
        throw std::invalid_argument("the model is loaded on npu:" + std::to_string(device_) +
                                    ", the stream is on npu:" + std::to_string(stream->device()));
    DeviceGuard guard(device_);
    if (last_ && last_ != stream && !last_->closed()) {
        if (!handover_) handover_ = std::make_unique<Event>(device_, false);
        last_->record(*handover_);
        stream->wait(*handover_);
    }
    Dataset in, out;
    fill(in, inputs, inputs_, "input");
    fill(out, outputs, outputs_, "output");
    api::call(api::aclmdlExecuteAsync, "running a model", model_->id,
              static_cast<const aclmdlDataset*>(in.handle()), out.handle(), stream->handle());
    last_ = stream;
    std::vector<std::vector<int64_t>> shapes(outputs_.size());
    for (std::size_t i = 0; i < outputs_.size(); ++i)
        if (dynamic(outputs_[i])) shapes[i] = out.shape(i);
    return shapes;
}

}  // namespace npu::cann
