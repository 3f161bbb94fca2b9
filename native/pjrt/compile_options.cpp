#include "pjrt/compile_options.h"

#include "pjrt/status.h"
#include "pjrt/wire.h"

namespace npu::pjrt {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
namespace options {
enum : uint32_t { kBuild = 3, kPortable = 4 };
}
namespace build {
enum : uint32_t { kOrdinal = 1, kReplicas = 4, kPartitions = 5, kAssignment = 9 };
}
namespace assignment {
enum : uint32_t { kReplicas = 1, kComputations = 2, kDevices = 3 };
}
namespace computation {
enum : uint32_t { kIds = 1 };
}

constexpr int64_t kMostDevices = 1 << 20;

// The message has a list of replicas for each partition; ours is replica by replica.
std::vector<int64_t> read_assignment(graph::Bytes bytes) {
    int64_t replicas = 0, partitions = 0;
    std::vector<std::vector<int64_t>> columns;
    graph::Message message(bytes);
    for (graph::Field field; message.next(field);) {
        if (field.number == assignment::kReplicas) replicas = field.integer();
        if (field.number == assignment::kComputations) partitions = field.integer();
        if (field.number != assignment::kDevices) continue;
        columns.emplace_back();
        graph::Message column(field.message());
        for (graph::Field id; column.next(id);)
            if (id.number == computation::kIds) id.append(columns.back());
    }
    std::vector<int64_t> devices;
    bool fits = static_cast<int64_t>(columns.size()) == partitions;
    for (const auto& column : columns) fits = fits && static_cast<int64_t>(column.size()) == replicas;
    if (!fits)
        throw invalid("the device assignment in the compile options has not one device for each place");
    for (int64_t r = 0; r < replicas; ++r)
        for (const auto& column : columns) devices.push_back(column[r]);
    return devices;
}

void read_build(graph::Bytes bytes, CompileOptions& out) {
    graph::Message message(bytes);
    for (graph::Field field; message.next(field);) {
        if (field.number == build::kOrdinal) out.device_ordinal = field.integer();
        if (field.number == build::kReplicas) out.num_replicas = field.integer();
        if (field.number == build::kPartitions) out.num_partitions = field.integer();
        if (field.number == build::kAssignment) out.assignment = read_assignment(field.message());
    }
}

}  // namespace

CompileOptions CompileOptions::read(std::string_view bytes) {
    CompileOptions out;
    try {
        graph::Message message(as_bytes(bytes));
        for (graph::Field field; message.next(field);) {
            if (field.number == options::kBuild) read_build(field.message(), out);
            if (field.number == options::kPortable) out.portable = field.integer() != 0;
        }
    } catch (const graph::GraphError&) {
        throw invalid("the compile options are no CompileOptionsProto");
    }
    // 0 is how the message says nothing.
    if (out.num_replicas == 0) out.num_replicas = 1;
    if (out.num_partitions == 0) out.num_partitions = 1;
    if (out.num_replicas < 0 || out.num_partitions < 0 || out.num_replicas > kMostDevices ||
        out.num_partitions > kMostDevices)
        throw invalid("the compile options ask for " + std::to_string(out.num_replicas) + " replicas of " +
                      std::to_string(out.num_partitions) + " partitions");
    return out;
}

std::string serialise_assignment(const std::vector<int64_t>& devices, int64_t replicas, int64_t partitions) {
    std::string out;
    put_integer(out, assignment::kReplicas, replicas);
    put_integer(out, assignment::kComputations, partitions);
    for (int64_t p = 0; p < partitions; ++p) {
        std::string ids, column;
        for (int64_t r = 0; r < replicas; ++r)
            put_varint(ids, static_cast<uint64_t>(devices[r * partitions + p]));
        put_bytes(column, computation::kIds, ids);
        put_bytes(out, assignment::kDevices, column);
    }
    return out;
}

}  // namespace npu::pjrt
