#include "cann/communicator.h"

#include <algorithm>
#include <cstring>

#include "cann/api.h"

namespace npu::cann {
namespace {

// HCCL reads the size first: of HcclCommConfig's three layouts the second is what released clients send
// (torch_npu 2.13), with the version that belongs to it, so that libraries older than the third take it too.
constexpr std::size_t kConfigSize = 2240;
constexpr uint32_t kConfigVersion = 10;

struct ConfigHead {
    uint64_t size;
    uint32_t magic, version;
    uint64_t reserved;
};
static_assert(sizeof(ConfigHead) == HCCL_COMM_CONFIG_INFO_BYTES);

HcclCommConfig config_of(const CommunicatorOptions& options) {
    if (options.name.size() >= COMM_NAME_MAX_LENGTH)
        throw std::invalid_argument("the communicator's name \"" + options.name + "\" has " +
                                    std::to_string(options.name.size()) + " characters; HCCL takes 127");
    HcclCommConfig config{};
    const ConfigHead head{kConfigSize, HCCL_COMM_CONFIG_MAGIC_WORD, kConfigVersion, 0};
    std::memcpy(config.reserved, &head, sizeof head);
    config.hcclBufferSize = options.buffer_megabytes.value_or(HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET);
    config.hcclDeterministic = options.deterministic ? static_cast<uint32_t>(*options.deterministic)
                                                     : HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
    std::memcpy(config.hcclCommName, options.name.c_str(), options.name.size() + 1);
    config.hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
    config.hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
    config.hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
    config.hcclExecTimeOut = options.execution_timeout.value_or(HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET);
    config.hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
    return config;
}

std::string rank_of(int rank, int size) {
    return "rank " + std::to_string(rank) + " of " + std::to_string(size);
}

}  // namespace

RootInfo Communicator::root_info(int device) {
    DeviceGuard guard(device);
    HcclRootInfo info{};
    static_assert(sizeof info == sizeof(RootInfo));
    api::call(api::HcclGetRootInfo, "making the root information of a communicator", &info);
    RootInfo bytes;
    std::memcpy(bytes.data(), &info, sizeof info);
    return bytes;
}

std::shared_ptr<Communicator> Communicator::join(const RootInfo& root, int rank, int size, int device,
                                                 const CommunicatorOptions& options) {
    if (size < 1 || rank < 0 || rank >= size) throw std::out_of_range("there is no " + rank_of(rank, size));
    DeviceGuard guard(device);
    HcclRootInfo info{};
    std::memcpy(&info, root.data(), sizeof info);
    const HcclCommConfig config = config_of(options);
    HcclComm handle = nullptr;
    api::call(
        api::HcclCommInitRootInfoConfig, [&] { return rank_of(rank, size) + " joining a communicator"; },
        static_cast<uint32_t>(size), &info, static_cast<uint32_t>(rank), &config, &handle);
    return std::shared_ptr<Communicator>(new Communicator(handle, rank, size, device));
}

std::vector<std::shared_ptr<Communicator>> Communicator::all(std::span<const int> devices) {
    if (devices.empty()) throw std::invalid_argument("a communicator needs at least one device");
    DeviceGuard guard(devices.front());
    std::vector<int32_t> ids(devices.begin(), devices.end());
    std::vector<HcclComm> handles(ids.size());
    api::call(api::HcclCommInitAll, "making a communicator of this process's devices",
              static_cast<uint32_t>(ids.size()), ids.data(), handles.data());
    std::vector<std::shared_ptr<Communicator>> ranks;
    for (std::size_t i = 0; i < ids.size(); ++i)
        ranks.emplace_back(
            new Communicator(handles[i], static_cast<int>(i), static_cast<int>(ids.size()), ids[i]));
    return ranks;
}

std::shared_ptr<Communicator> Communicator::sub(std::span<const int> ranks, uint64_t id,
                                                const CommunicatorOptions& options) {
    for (int rank : ranks) require_rank(rank, "a sub-communicator");
    DeviceGuard guard(device_);
    std::vector<uint32_t> ids(ranks.begin(), ranks.end());
    const auto mine = std::ranges::find(ids, static_cast<uint32_t>(rank_));
    HcclCommConfig config = config_of(options);
    HcclComm parent = handle(), made = nullptr;
    const auto doing = [&] { return rank_of(rank_, size_) + " making a sub-communicator"; };
    if (mine == ids.end()) {  // HCCL's sign for "not me": no ranks and the invalid id
        api::call(api::HcclCreateSubCommConfig, doing, &parent, 0U, static_cast<uint32_t*>(nullptr),
                  static_cast<uint64_t>(0xFFFFFFFF), 0U, &config, &made);
        return nullptr;
    }
    const auto position = static_cast<uint32_t>(mine - ids.begin());
    api::call(api::HcclCreateSubCommConfig, doing, &parent, static_cast<uint32_t>(ids.size()), ids.data(), id,
              position, &config, &made);
    return std::shared_ptr<Communicator>(
        new Communicator(made, static_cast<int>(position), static_cast<int>(ids.size()), device_));
}

Communicator::~Communicator() {
    if (closed_.exchange(true)) return;
    try {
        DeviceGuard guard(device_);
        api::HcclCommDestroy(handle_);
    } catch (const std::exception&) {  // the device was reset under it
    }
}

HcclComm Communicator::handle() const {
    if (closed_)
        throw ClosedError("the communicator of " + rank_of(rank_, size_) + " is closed; make a new one");
    return handle_;
}

std::string Communicator::name() const {
    char name[COMM_NAME_MAX_LENGTH] = {};
    api::call(api::HcclGetCommName, "asking for a communicator's name", handle(), name);
    return name;
}

void Communicator::close() {
    if (closed_.exchange(true)) return;
    DeviceGuard guard(device_);
    api::call(
        api::HcclCommDestroy, [&] { return "ending the communicator of " + rank_of(rank_, size_); }, handle_);
}

void Communicator::abort(Milliseconds timeout) {
    if (closed_.exchange(true)) return;
    DeviceGuard guard(device_);
    // First the work, which would wait for the peers for ever; then what it used. Both are tried.
    const aclError stopped = api::aclrtDeviceTaskAbort(device_, static_cast<uint32_t>(timeout.count()));
    api::call(
        api::HcclCommDestroy, [&] { return "aborting the communicator of " + rank_of(rank_, size_); },
        handle_);
    check(Family::acl, stopped, "aclrtDeviceTaskAbort",
          "stopping the collectives of an aborted communicator");
}

void Communicator::check_async_error() const {
    HcclResult state = HCCL_SUCCESS;
    api::call(api::HcclGetCommAsyncError, "asking for a communicator's state", handle(), &state);
    check(Family::hccl, state, "HcclGetCommAsyncError",
          [&] { return "a collective of " + rank_of(rank_, size_) + " failed"; });
}

void Communicator::require_rank(int rank, const char* what) const {
    if (rank < 0 || rank >= size_)
        throw std::out_of_range(std::string(what) + " names rank " + std::to_string(rank) +
                                " of a communicator of " + std::to_string(size_));
}

void Communicator::require_pieces(Pieces pieces, const char* what) const {
    const auto n = static_cast<std::size_t>(size_);
    if (pieces.counts.size() != n || pieces.offsets.size() != n)
        throw std::invalid_argument(std::string(what) + " needs a count and an offset for each of " +
                                    std::to_string(size_) + " ranks, and has " +
                                    std::to_string(pieces.counts.size()) + " and " +
                                    std::to_string(pieces.offsets.size()));
}

template <typename F, typename... A>
void Communicator::run(F& function, const Stream& stream, A... arguments) {
    if (stream.device() != device_)
        throw std::invalid_argument("the communicator is on npu:" + std::to_string(device_) +
                                    ", the stream on npu:" + std::to_string(stream.device()));
    DeviceGuard guard(device_);
    api::call(
        function, [&] { return rank_of(rank_, size_) + " in a collective"; }, arguments..., handle(),
        stream.handle());
}

// HCCL takes sources as void* and does not write to them.
static void* source(const void* address) { return const_cast<void*>(address); }

void Communicator::all_reduce(const void* send, void* receive, uint64_t count, HcclDataType type,
                              HcclReduceOp op, const Stream& stream) {
    run(api::HcclAllReduce, stream, source(send), receive, count, type, op);
}

void Communicator::broadcast(void* buffer, uint64_t count, HcclDataType type, int root,
                             const Stream& stream) {
    require_rank(root, "broadcast");
    run(api::HcclBroadcast, stream, buffer, count, type, static_cast<uint32_t>(root));
}

void Communicator::reduce(const void* send, void* receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                          int root, const Stream& stream) {
    require_rank(root, "reduce");
    run(api::HcclReduce, stream, source(send), receive, count, type, op, static_cast<uint32_t>(root));
}

void Communicator::reduce_scatter(const void* send, void* receive, uint64_t receive_count, HcclDataType type,
                                  HcclReduceOp op, const Stream& stream) {
    run(api::HcclReduceScatter, stream, source(send), receive, receive_count, type, op);
}

void Communicator::reduce_scatter_v(const void* send, std::span<const uint64_t> counts,
                                    std::span<const uint64_t> offsets, void* receive, HcclDataType type,
                                    HcclReduceOp op, const Stream& stream) {
    require_pieces({counts, offsets}, "reduce_scatter_v");
    run(api::HcclReduceScatterV, stream, source(send), static_cast<const void*>(counts.data()),
        static_cast<const void*>(offsets.data()), receive, counts[static_cast<std::size_t>(rank_)], type, op);
}

void Communicator::scatter(const void* send, void* receive, uint64_t receive_count, HcclDataType type,
                           int root, const Stream& stream) {
    require_rank(root, "scatter");
    run(api::HcclScatter, stream, source(send), receive, receive_count, type, static_cast<uint32_t>(root));
}

void Communicator::all_gather(const void* send, void* receive, uint64_t send_count, HcclDataType type,
                              const Stream& stream) {
    run(api::HcclAllGather, stream, source(send), receive, send_count, type);
}

void Communicator::all_gather_v(const void* send, uint64_t send_count, void* receive,
                                std::span<const uint64_t> counts, std::span<const uint64_t> offsets,
                                HcclDataType type, const Stream& stream) {
    require_pieces({counts, offsets}, "all_gather_v");
    run(api::HcclAllGatherV, stream, source(send), send_count, receive,
        static_cast<const void*>(counts.data()), static_cast<const void*>(offsets.data()), type);
}

void Communicator::all_to_all(const void* send, void* receive, uint64_t count, HcclDataType type,
                              const Stream& stream) {
    const void* into = receive;
    run(api::HcclAlltoAll, stream, send, count, type, into, count, type);
}

void Communicator::all_to_all_v(const void* send, Pieces sent, void* receive, Pieces received,
                                HcclDataType type, const Stream& stream) {
    require_pieces(sent, "what all_to_all_v sends");
    require_pieces(received, "what all_to_all_v receives");
    const void *send_counts = sent.counts.data(), *send_offsets = sent.offsets.data(), *into = receive;
    const void *receive_counts = received.counts.data(), *receive_offsets = received.offsets.data();
    run(api::HcclAlltoAllV, stream, send, send_counts, send_offsets, type, into, receive_counts,
        receive_offsets, type);
}

void Communicator::send(const void* buffer, uint64_t count, HcclDataType type, int peer,
                        const Stream& stream) {
    require_rank(peer, "send");
    run(api::HcclSend, stream, source(buffer), count, type, static_cast<uint32_t>(peer));
}

void Communicator::receive(void* buffer, uint64_t count, HcclDataType type, int peer, const Stream& stream) {
    require_rank(peer, "receive");
    run(api::HcclRecv, stream, buffer, count, type, static_cast<uint32_t>(peer));
}

void Communicator::batch_send_receive(std::span<HcclSendRecvItem> items, const Stream& stream) {
    for (const HcclSendRecvItem& item : items)
        require_rank(static_cast<int>(item.remoteRank), "batch_send_receive");
    if (!items.empty())
        run(api::HcclBatchSendRecv, stream, items.data(), static_cast<uint32_t>(items.size()));
}

void Communicator::barrier(const Stream& stream) { run(api::HcclBarrier, stream); }

}  // namespace npu::cann
