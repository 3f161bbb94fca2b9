// A compiled graph (an offline model, OM) loaded on a device and run on streams: aclmdl*, CANN's static
// route.
//
// What builds the OM from a serialised GE graph is not here: aclgrphBuildModel (ge.h) gives the bytes that
// load() takes.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cann/pool.h"

namespace npu::cann {

/// An input or output of a model.
struct Port {
    std::string name;
    aclDataType type;
    std::vector<int64_t> shape;  ///< -1 where it is dynamic
    std::size_t bytes;  ///< at most, what a buffer for it needs; 0 where it is not known before a run
};

struct Buffer {
    void* address;
    std::size_t bytes;
    /// In this run, where the port's is dynamic; nothing: as the port says.
    std::optional<std::vector<int64_t>> shape = {};
};

class GraphSession {
  public:
    /// Loads a model. Its weights and its work area are taken from the device's pool. Throws Error.
    static std::shared_ptr<GraphSession> load(std::span<const std::byte> model,
                                              const std::shared_ptr<Stream>& stream);
    ~GraphSession();
    GraphSession(const GraphSession&) = delete;
    GraphSession& operator=(const GraphSession&) = delete;

    int device() const { return device_; }
    const std::vector<Port>& inputs() const { return inputs_; }
    const std::vector<Port>& outputs() const { return outputs_; }
    bool closed() const { return model_ == nullptr; }
    void close();

    /// Puts a run on the stream. Buffers in the order of the ports; they must live until it is done. Runs of
    /// one session share its work area: one on another stream waits for the last. Thread-safe. Answers the
    /// shapes of dynamic outputs in this run (empty lists for others). Throws std::invalid_argument (count or
    /// size of a buffer), Error.
    std::vector<std::vector<int64_t>> run(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                                          const std::shared_ptr<Stream>& stream);

  private:
    struct Model;
    GraphSession(int device, std::unique_ptr<Model> model);

    int device_;
    std::unique_ptr<Model> model_;
    std::vector<Port> inputs_, outputs_;
    std::mutex mutex_;
    std::shared_ptr<Stream> last_;  ///< where the last run went
    std::unique_ptr<Event> handover_;
};

}  // namespace npu::cann
