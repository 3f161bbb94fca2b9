// Work of a stream, captured once and replayed: aclmdlRI.
//
// Memory that is asked for on the capturing stream while it captures is part of the graph, which reads and
// writes those addresses at every replay: the pool keeps it for this stream until the graph is closed. So the
// stream must be one that nobody else uses.
#pragma once

#include <memory>

#include "cann/pool.h"

namespace npu::cann {

class CapturedGraph {
  public:
    ~CapturedGraph();
    CapturedGraph(const CapturedGraph&) = delete;
    CapturedGraph& operator=(const CapturedGraph&) = delete;

    int device() const { return stream_->device(); }
    bool closed() const { return graph_ == nullptr; }
    /// The replays must be done. A second time does nothing.
    void close();
    /// Puts one replay on a stream of the same device. Throws Error, ClosedError.
    void replay(const Stream& stream) const;

  private:
    friend class Capture;
    CapturedGraph(std::shared_ptr<Stream> stream, Pool::Hold hold, aclmdlRI graph)
        : stream_(std::move(stream)), hold_(std::move(hold)), graph_(graph) {}

    std::shared_ptr<Stream> stream_;
    Pool::Hold hold_;
    aclmdlRI graph_;
};

/// A capture under way; one that is not finished is thrown away.
class Capture {
  public:
    /// From here on what is put on the stream is recorded instead of run. Throws Error.
    explicit Capture(std::shared_ptr<Stream> stream);
    ~Capture();
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

    /// What was recorded. Throws Error (something made the capture invalid), std::logic_error (a second
    /// time).
    std::shared_ptr<CapturedGraph> finish();

  private:
    std::shared_ptr<Stream> stream_;
    Pool::Hold hold_;
    bool open_ = true;
};

}  // namespace npu::cann
