// HCCL's collectives as operators.
#include "graph/shapes.h"

namespace npu::graph {
namespace {

void like_x(Context& c) { c.out(c.in("x").type); }

int64_t rank_size(const Context& c) {
    int64_t ranks = c.integer("rank_size");
    if (ranks <= 0) c.fail("its attribute rank_size is " + std::to_string(ranks));
    return ranks;
}

/// One tensor after the other along the first dimension; a scalar counts as a vector of one.
void all_gather(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims x = c.dims("x");
        if (x.empty()) x.push_back(1);
        x[0] = product(c, Dims{x[0], rank_size(c)});
        return x;
    });
}

void reduce_scatter(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims x = c.dims("x");
        int64_t ranks = rank_size(c);
        if (x.empty() || x[0] % ranks != 0)
            c.fail("the first dimension does not divide among " + std::to_string(ranks) + " ranks");
        if (x[0] >= 0) x[0] /= ranks;
        return x;
    });
}

void broadcast_all(Context& c) {
    for (const Operand& operand : c.all("x")) c.out(operand.type);
}

int64_t sum(const Context& c, const Dims& counts) {
    int64_t out = 0;
    for (int64_t count : counts) out = sum_sizes(c, out, count);
    return out;
}

/// As many elements as recv_counts and recv_displacements reach, in one dimension.
void all_to_all_v(Context& c) {
    c.out(c.dtype("send_data"), [&] {
        auto counts = c.value("recv_counts"), starts = c.value("recv_displacements");
        if (!counts || !starts) return Dims{kUnknown};
        if (counts->size() != starts->size()) c.fail("recv_counts and recv_displacements differ in length");
        int64_t end = 0;
        for (std::size_t at = 0; at < counts->size(); ++at)
            end = std::max(end, sum_sizes(c, (*counts)[at], (*starts)[at]));
        return Dims{end};
    });
}

/// recv_counts of elements, flat.
void all_gather_v(Context& c) {
    c.out(c.dtype("x"),
          [&] { return Dims{c.value("recv_counts") ? sum(c, *c.value("recv_counts")) : kUnknown}; });
}

void reduce_scatter_v(Context& c) {
    c.out(c.dtype("x"), [&] { return Dims{c.value("recv_count") ? c.need_scalar("recv_count") : kUnknown}; });
}

void send(Context&) {}

void receive(Context& c) {
    c.out(c.type("dtype"), [&] { return c.integers("shape"); });
}

constexpr Rule kRules[] = {
    {"HcomAllGather", all_gather},
    {"HcomAllGatherV", all_gather_v, {"recv_counts"}},
    {"HcomAllReduce", like_x},
    {"HcomAllToAll", like_x},
    {"HcomAllToAllV", all_to_all_v, {"recv_counts", "recv_displacements"}},
    {"HcomBroadcast", broadcast_all},
    {"HcomReceive", receive},
    {"HcomReduce", like_x},
    {"HcomReduceScatter", reduce_scatter},
    {"HcomReduceScatterV", reduce_scatter_v, {"recv_count"}},
    {"HcomSend", send},
};

}  // namespace

std::span<const Rule> collective_rules() { return kRules; }

}  // namespace npu::graph
