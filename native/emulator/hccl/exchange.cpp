#include "exchange.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "large_copy.h"
#include "runtime/launch.h"
#include "transport.h"

namespace npu::emulator::hccl {

Turn::Turn(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {
    std::lock_guard lock(communicator_->mutex);
    number_ = ++communicator_->called;
}
Turn::~Turn() {
    if (done_) return;
    std::lock_guard lock(communicator_->mutex);
    communicator_->broken = true;
    communicator_->turn_came.notify_all();
}
void Turn::wait(const char* function) {
    std::unique_lock lock(communicator_->mutex);
    communicator_->turn_came.wait(lock,
                                  [&] { return communicator_->broken || communicator_->turn == number_; });
    if (communicator_->turn == number_) return;
    lock.unlock();
    communicator_->fail(HCCL_E_INTERNAL, std::string(function) + " comes after a call that failed");
}
void Turn::done() {
    std::lock_guard lock(communicator_->mutex);
    done_ = true;
    ++communicator_->turn;
    communicator_->turn_came.notify_all();
}

namespace {

/// What is pulled from the peers before it is reduced: large enough that the system calls cost little, small
/// enough for a core's second-level cache with the result and this rank's own block.
constexpr uint64_t kPulledBytes = 512 * 1024;

/// `elements` of a peer's buffer from `offset` on, into one's own from `target` on.
struct Span {
    uint32_t peer;
    uint64_t offset, target, elements;
};

class Collective final : public Task {
  public:
    Collective(std::shared_ptr<Communicator> communicator, Request request)
        : turn_(std::move(communicator)),
          request_(std::move(request)),
          element_(request_.kind == Kind::barrier ? 1 : element_size(request_.type)) {}

    void run() override;
    const char* name() const override { return request_.function; }

  private:
    Communicator& group() { return turn_.communicator(); }
    uint32_t self() { return group().rank; }
    RankSlot& slot(uint32_t rank) { return group().segment->slot(rank); }
    Post& post(uint32_t rank) { return group().size == 1 ? *alone_ : slot(rank).posts[turn_.number() % 2]; }
    std::byte* receive() { return landing_ ? landing_->data() : static_cast<std::byte*>(request_.receive); }

    uint64_t sent_elements();
    uint64_t received_elements();
    bool overlaps();
    void show();
    void meet(GateName name);
    void check();
    void copy(const Span& span, const Source Post::* source);
    void reduce(uint64_t offset, uint64_t target, uint64_t elements);
    void all_reduce_in_parts();
    std::vector<Span> spans();
    void move();
    void land();

    Turn turn_;
    Request request_;
    uint64_t element_;
    std::optional<SharedCopy> copy_;
    std::optional<std::vector<std::byte>>
        landing_;                  ///< results wait here while peers read what they overwrite
    std::unique_ptr<Post> alone_;  ///< a group of one rank has no segment
};

uint64_t extent(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& displs) {
    uint64_t end = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] > 0) end = std::max(end, counts[i] + displs[i]);
    }
    return end;
}

uint64_t Collective::sent_elements() {
    switch (request_.kind) {
        case Kind::barrier:
            return 0;
        case Kind::broadcast:
            return self() == request_.root ? request_.count : 0;
        case Kind::scatter:
            return self() == request_.root ? request_.count * group().size : 0;
        case Kind::reduce:
        case Kind::all_reduce:
        case Kind::all_gather:
            return request_.count;
        case Kind::all_gather_v:
            return request_.send_counts[0];
        case Kind::reduce_scatter:
        case Kind::all_to_all:
            return request_.count * group().size;
        default:
            return extent(request_.send_counts, request_.send_displs);
    }
}

uint64_t Collective::received_elements() {
    switch (request_.kind) {
        case Kind::barrier:
            return 0;
        case Kind::reduce:
            return self() == request_.root ? request_.count : 0;
        case Kind::broadcast:
        case Kind::scatter:
        case Kind::all_reduce:
        case Kind::reduce_scatter:
            return request_.count;
        case Kind::all_gather:
        case Kind::all_to_all:
            return request_.count * group().size;
        case Kind::reduce_scatter_v:
            return request_.receive_counts[0];
        default:
            return extent(request_.receive_counts, request_.receive_displs);
    }
}

/// Whether results would fall on bytes that peers, or this rank itself, still have to read.
bool Collective::overlaps() {
    if (request_.kind == Kind::broadcast || request_.kind == Kind::reduce ||
        request_.kind == Kind::all_reduce)
        return false;  // element by element in place
    auto* sent = static_cast<const std::byte*>(request_.send);
    auto* received = static_cast<const std::byte*>(request_.receive);
    const uint64_t out = sent_elements() * element_, in = received_elements() * element_;
    if (out == 0 || in == 0 || sent >= received + in || received >= sent + out) return false;
    // The usual in-place forms: this rank's part lies where it belongs.
    if (request_.kind == Kind::all_gather) return sent != received + self() * request_.count * element_;
    if (request_.kind == Kind::reduce_scatter) return received != sent + self() * request_.count * element_;
    return true;
}

void Collective::show() {
    Post& mine = post(self());
    mine.kind = request_.kind;
    mine.type = request_.type;
    mine.op = request_.op;
    mine.root = request_.root;
    mine.count = request_.count;
    for (std::size_t i = 0; i < request_.send_counts.size(); ++i) {
        mine.counts[i] = request_.send_counts[i];
        mine.displs[i] = request_.send_displs.empty() ? 0 : request_.send_displs[i];
    }
    const uint64_t bytes = sent_elements() * element_;
    mine.source = {Source::process, {}, reinterpret_cast<uint64_t>(request_.send)};
    mine.result = {Source::process, {}, reinterpret_cast<uint64_t>(request_.receive)};
    if (group().size == 1) return;
    if (bytes <= kInlineBytes) {
        mine.source.place = Source::inlined;
        if (bytes > 0) std::memcpy(mine.data, request_.send, bytes);
    } else if (!group().readable) {
        copy_.emplace(request_.send, bytes);
        mine.source = mine.result = {Source::file, copy_->file(), 0};
    }
}

void Collective::meet(GateName name) {
    if (group().size == 1) return;
    // Ranks that gave up have been counted at the gate, but what they showed may be gone.
    if (const uint32_t failed = group().segment->header().failed; failed != 0)
        group().lost(failed - 1, request_.function);
    const uint64_t number = turn_.number(), here = number * 4 + name;
    Gate& gate = group().segment->header().gates[name][number % 2];
    const auto stamp = static_cast<uint32_t>(number);
    slot(self()).progress = here;
    if (gate.arrived.fetch_add(1) + 1 == group().size) {
        gate.arrived = 0;
        gate.epoch = stamp;
        futex_wake(gate.epoch);
        return;
    }
    auto late = [&] {
        std::vector<uint32_t> ranks;
        for (uint32_t rank = 0; rank < group().size; ++rank) {
            if (slot(rank).progress < here) ranks.push_back(rank);
        }
        return ranks;
    };
    group().await(gate.epoch, request_.function, [&] { return gate.epoch == stamp; }, late);
}

std::string describe(const Post& post) {
    static constexpr const char* names[] = {"Barrier",        "Broadcast", "Scatter",    "Reduce",
                                            "AllReduce",      "AllGather", "AllGatherV", "ReduceScatter",
                                            "ReduceScatterV", "AlltoAll",  "AlltoAllV",  "AlltoAllVC"};
    std::string text = std::string("Hccl") + names[static_cast<std::size_t>(post.kind)] + " of " +
                       std::to_string(post.count) + " " + element_name(post.type);
    if (post.kind == Kind::broadcast || post.kind == Kind::scatter || post.kind == Kind::reduce)
        text += ", root " + std::to_string(post.root);
    if (post.kind >= Kind::reduce) text += ", reduction " + std::to_string(post.op);
    return text;
}

/// All ranks must have called the same collective: else one would compute with another's bytes.
void Collective::check() {
    const Post& mine = post(self());
    for (uint32_t rank = 0; rank < group().size; ++rank) {
        const Post& theirs = post(rank);
        if (theirs.kind == mine.kind && theirs.type == mine.type && theirs.op == mine.op &&
            theirs.root == mine.root && theirs.count == mine.count)
            continue;
        group().fail(HCCL_E_PARA, std::string(request_.function) +
                                      ": the ranks do not call the same collective: rank " +
                                      std::to_string(rank) + " calls " + describe(theirs) + ", this rank " +
                                      describe(mine));
    }
}

void Collective::copy(const Span& span, const Source Post::* source) {
    if (span.elements == 0) return;
    std::byte* to = receive() + span.target * element_;
    const Post& theirs = post(span.peer);
    if (span.peer == self() && source == &Post::source) {
        auto* from = static_cast<const std::byte*>(request_.send) + span.offset * element_;
        if (from != to) large_copy(to, from, span.elements * element_);
        return;
    }
    read_from(group(), span.peer, theirs.*source, theirs.data, span.offset * element_, to,
              span.elements * element_, request_.function);
}

/// In the order of the ranks, whoever computes: every rank that reduces the same elements gets the same bits.
void Collective::reduce(uint64_t offset, uint64_t target, uint64_t elements) {
    if (elements == 0) return;
    const uint32_t size = group().size;
    const uint64_t block = std::min(elements, kPulledBytes / size / element_);
    const Reducer reducer(request_.type, request_.op);
    std::vector<const void*> blocks(size);
    for (uint64_t done = 0; done < elements; done += block) {
        const uint64_t n = std::min(block, elements - done);
        for (uint32_t rank = 0; rank < size; ++rank) {
            const Post& theirs = post(rank);
            const uint64_t at =
                request_.kind == Kind::reduce_scatter_v ? theirs.displs[self()] + done : offset + done;
            if (theirs.source.place == Source::inlined) {
                blocks[rank] = theirs.data + at * element_;
            } else if (rank == self()) {
                blocks[rank] = static_cast<const std::byte*>(request_.send) + at * element_;
            } else {
                std::byte* pulled = group().scratch(kPulledBytes) + rank * block * element_;
                read_from(group(), rank, theirs.source, theirs.data, at * element_, pulled, n * element_,
                          request_.function);
                blocks[rank] = pulled;
            }
        }
        reducer.reduce(receive() + (target + done) * element_, blocks, n);
    }
}

/// Each rank reduces one part, then all read the parts of the others.
void Collective::all_reduce_in_parts() {
    const uint64_t size = group().size;
    const uint64_t line = 64 / element_;  // parts begin on cache lines
    const uint64_t part = (request_.count + size * line - 1) / (size * line) * line;
    auto begin = [&](uint64_t rank) { return std::min(request_.count, rank * part); };
    const uint64_t mine = begin(self()), end = begin(self() + 1);
    reduce(mine, mine, end - mine);
    if (copy_) copy_->write(receive() + mine * element_, (end - mine) * element_, mine * element_);
    meet(reduced);
    for (uint32_t step = 1; step < size; ++step) {  // each rank begins with another peer
        const auto peer = static_cast<uint32_t>((self() + step) % size);
        copy({peer, begin(peer), begin(peer), begin(peer + 1) - begin(peer)}, &Post::result);
    }
}

std::vector<Span> Collective::spans() {
    std::vector<Span> all;
    const uint64_t count = request_.count;
    if (request_.kind == Kind::broadcast) return {{request_.root, 0, 0, count}};
    if (request_.kind == Kind::scatter) return {{request_.root, self() * count, 0, count}};
    for (uint32_t step = 0; step < group().size; ++step) {
        const uint32_t peer = (self() + step) % group().size;
        const Post& theirs = post(peer);
        if (request_.kind == Kind::all_gather) {
            all.push_back({peer, 0, peer * count, count});
        } else if (request_.kind == Kind::all_to_all) {
            all.push_back({peer, self() * count, peer * count, count});
        } else {
            const bool gather = request_.kind == Kind::all_gather_v;
            const uint64_t sent = theirs.counts[gather ? 0 : self()];
            if (sent != request_.receive_counts[peer]) {
                group().fail(HCCL_E_PARA, std::string(request_.function) + ": rank " + std::to_string(peer) +
                                              " sends " + std::to_string(sent) +
                                              " elements to this rank, which expects " +
                                              std::to_string(request_.receive_counts[peer]));
            }
            all.push_back({peer, gather ? 0 : theirs.displs[self()], request_.receive_displs[peer], sent});
        }
    }
    return all;
}

void Collective::move() {
    const bool inlined = post(self()).source.place == Source::inlined;
    switch (request_.kind) {
        case Kind::barrier:
            return;
        case Kind::all_reduce:
            return inlined || group().size == 1 ? reduce(0, 0, request_.count) : all_reduce_in_parts();
        case Kind::reduce:
            if (self() == request_.root) reduce(0, 0, request_.count);
            return;
        case Kind::reduce_scatter:
            return reduce(self() * request_.count, 0, request_.count);
        case Kind::reduce_scatter_v:
            for (uint32_t rank = 0; rank < group().size; ++rank) {
                if (post(rank).counts[self()] == request_.receive_counts[0]) continue;
                group().fail(HCCL_E_PARA, std::string(request_.function) + ": rank " + std::to_string(rank) +
                                              " brings " + std::to_string(post(rank).counts[self()]) +
                                              " elements for this rank, which expects " +
                                              std::to_string(request_.receive_counts[0]));
            }
            return reduce(0, 0, request_.receive_counts[0]);
        default:
            for (const Span& span : spans()) {
                if (request_.kind == Kind::broadcast && span.peer == self()) continue;
                copy(span, &Post::source);
            }
    }
}

/// Results to where they belong; gaps between parts keep what they hold.
void Collective::land() {
    const std::vector<std::byte> landed = std::move(*landing_);
    landing_.reset();
    auto put = [&](uint64_t at, uint64_t n) {
        if (n > 0) std::memcpy(receive() + at * element_, landed.data() + at * element_, n * element_);
    };
    if (request_.receive_displs.empty()) return put(0, received_elements());
    for (std::size_t i = 0; i < request_.receive_displs.size(); ++i)
        put(request_.receive_displs[i], request_.receive_counts[i]);
}

void Collective::run() {
    if (group().size == 1) alone_ = std::make_unique<Post>();
    turn_.wait(request_.function);
    if (overlaps()) landing_.emplace(received_elements() * element_);
    show();
    if (group().size == 1) {
        move();
    } else {
        meet(posted);
        check();
        move();
        bool read_in_place = false;
        for (uint32_t rank = 0; rank < group().size; ++rank)
            read_in_place = read_in_place || post(rank).source.place != Source::inlined;
        if (read_in_place) meet(finished);
    }
    if (landing_) land();
    turn_.done();
}

}  // namespace

HcclResult enqueue(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream) {
    const Engine engine = communicator->size == 1 ? Engine::copy : Engine::host;
    const char* function = request.function;
    const aclError error = launch_made(
        stream, function,
        [communicator = std::move(communicator), request = std::move(request)] {
            return std::make_unique<Collective>(communicator, request);
        },
        engine);
    return error == ACL_SUCCESS ? HCCL_SUCCESS : HCCL_E_RUNTIME;
}

}  // namespace npu::emulator::hccl
