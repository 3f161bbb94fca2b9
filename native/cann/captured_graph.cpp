#include "cann/captured_graph.h"

#include <stdexcept>

#include "cann/api.h"

namespace npu::cann {

CapturedGraph::~CapturedGraph() {
    try {
        close();
    } catch (const std::exception&) {  // nobody is left to hear it
    }
}

void CapturedGraph::close() {
    if (graph_ == nullptr) return;
    DeviceGuard guard(device());
    hold_.release();
    api::call(api::aclmdlRIDestroy, "destroying a captured graph", std::exchange(graph_, nullptr));
}

void CapturedGraph::replay(const Stream& stream) const {
    if (graph_ == nullptr) throw ClosedError("the captured graph is closed");
    if (stream.device() != device())
        throw std::invalid_argument("a graph captured on npu:" + std::to_string(device()) +
                                    " cannot be replayed on npu:" + std::to_string(stream.device()));
    DeviceGuard guard(device());
    api::call(api::aclmdlRIExecuteAsync, "replaying a captured graph", graph_, stream.handle());
}

Capture::Capture(std::shared_ptr<Stream> stream)
    : stream_(std::move(stream)), hold_(Pool::of(stream_->device())->hold(stream_)) {
    DeviceGuard guard(stream_->device());
    // Relaxed: other threads go on allocating and waiting meanwhile.
    api::call(api::aclmdlRICaptureBegin, "starting a capture", stream_->handle(),
              ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
}

Capture::~Capture() {
    if (!open_) return;
    try {
        finish();
    } catch (const std::exception&) {  // it is thrown away because something failed: that was said
    }
}

std::shared_ptr<CapturedGraph> Capture::finish() {
    if (!std::exchange(open_, false)) throw std::logic_error("this capture is finished");
    DeviceGuard guard(stream_->device());
    aclmdlRI graph = nullptr;
    api::call(api::aclmdlRICaptureEnd, "ending a capture", stream_->handle(), &graph);
    return std::shared_ptr<CapturedGraph>(new CapturedGraph(stream_, std::move(hold_), graph));
}

}  // namespace npu::cann
