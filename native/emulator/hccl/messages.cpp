#include "messages.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "exchange.h"
#include "runtime/launch.h"

namespace npu::emulator::hccl {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a large send waits for its receiver before it makes a copy.
constexpr std::chrono::milliseconds kPatience{5};

class Messages final : public Task {
  public:
    Messages(const char* function, std::shared_ptr<Communicator> communicator,
             std::vector<Transfer> transfers);
    void run() override;
    const char* name() const override { return function_; }

  private:
    struct Progress {
        Transfer transfer;
        uint64_t number;  ///< of the message in its mailbox
        bool shown = false, done = false;
        Clock::time_point since{};
        uint64_t bytes() const { return transfer.count * element_size(transfer.type); }
    };

    Message& message(const Progress& progress);
    bool advance(Progress& progress);
    bool send(Progress& progress);
    bool receive(Progress& progress);
    void ring(uint32_t peer);
    void among_oneself();

    const char* function_;
    std::shared_ptr<Communicator> communicator_;
    std::vector<Progress> transfers_;
};

Messages::Messages(const char* function, std::shared_ptr<Communicator> communicator,
                   std::vector<Transfer> transfers)
    : function_(function), communicator_(std::move(communicator)) {
    std::lock_guard lock(communicator_->mutex);
    for (Transfer& transfer : transfers) {
        auto& count = (transfer.send ? communicator_->sent : communicator_->received)[transfer.peer];
        transfers_.push_back({transfer, count++});
    }
}

Message& Messages::message(const Progress& progress) {
    const uint32_t self = communicator_->rank, peer = progress.transfer.peer;
    Mailbox& mailbox = progress.transfer.send ? communicator_->segment->mailbox(self, peer)
                                              : communicator_->segment->mailbox(peer, self);
    return mailbox.messages[progress.number % kMailboxEntries];
}

void Messages::ring(uint32_t peer) {
    std::atomic<uint32_t>& bell = communicator_->segment->slot(peer).bell;
    bell.fetch_add(1);
    futex_wake(bell);
}

bool Messages::send(Progress& progress) {
    Message& place = message(progress);
    const uint64_t turn = progress.number / kMailboxEntries;
    if (!progress.shown) {
        if (place.state != Message::empty || place.turn != turn) return false;
        place.type = progress.transfer.type;
        place.bytes = progress.bytes();
        place.source = {Source::process, {}, reinterpret_cast<uint64_t>(progress.transfer.buffer)};
        if (place.bytes <= kInlineMessageBytes) {
            place.source.place = Source::inlined;
            if (place.bytes > 0) std::memcpy(place.data, progress.transfer.buffer, place.bytes);
            progress.done = true;
        }
        const bool direct = progress.done || communicator_->readable;
        if (!direct) {
            communicator_->keep(place, progress.transfer.buffer, place.bytes);
            progress.done = true;
        }
        place.state = progress.done ? Message::kept : Message::shown;
        progress.shown = true;
        progress.since = Clock::now();
        ring(progress.transfer.peer);
        return true;
    }
    if (place.turn != turn) return progress.done = true;  // received
    uint32_t shown = Message::shown;
    if (Clock::now() - progress.since < kPatience ||
        !place.state.compare_exchange_strong(shown, Message::moving))
        return false;
    communicator_->keep(place, progress.transfer.buffer, progress.bytes());
    place.state = Message::kept;
    ring(progress.transfer.peer);
    return progress.done = true;
}

bool Messages::receive(Progress& progress) {
    Message& place = message(progress);
    if (place.turn != progress.number / kMailboxEntries) return false;
    uint32_t state = place.state;
    if (state != Message::shown && state != Message::kept) return false;
    if (!place.state.compare_exchange_strong(state, Message::taking)) return false;
    const uint32_t peer = progress.transfer.peer;
    if (place.bytes != progress.bytes() || place.type != progress.transfer.type) {
        communicator_->fail(HCCL_E_PARA, std::string(function_) + ": rank " + std::to_string(peer) +
                                             " sends " + std::to_string(place.bytes) + " bytes of " +
                                             element_name(place.type) + " where this rank receives " +
                                             std::to_string(progress.bytes()) + " of " +
                                             element_name(progress.transfer.type));
    }
    read_from(*communicator_, peer, place.source, place.data, 0, progress.transfer.buffer, place.bytes,
              function_);
    ++place.turn;
    place.state = Message::empty;
    ring(peer);
    return progress.done = true;
}

bool Messages::advance(Progress& progress) {
    return progress.transfer.send ? send(progress) : receive(progress);
}

/// A group of one rank: the n-th send meets the n-th receive.
void Messages::among_oneself() {
    std::vector<const Transfer*> sends, receives;
    for (const Progress& p : transfers_) (p.transfer.send ? sends : receives).push_back(&p.transfer);
    for (std::size_t i = 0; i < sends.size(); ++i) {
        if (receives[i]->buffer != sends[i]->buffer && sends[i]->count > 0)
            std::memmove(receives[i]->buffer, sends[i]->buffer,
                         sends[i]->count * element_size(sends[i]->type));
    }
}

void Messages::run() {
    if (communicator_->size == 1) return among_oneself();
    std::atomic<uint32_t>& bell = communicator_->segment->slot(communicator_->rank).bell;
    auto pending = [&] {
        std::vector<uint32_t> peers;
        for (const Progress& p : transfers_) {
            if (!p.done && std::find(peers.begin(), peers.end(), p.transfer.peer) == peers.end())
                peers.push_back(p.transfer.peer);
        }
        return peers;
    };
    auto step = [&] {
        bool moved = false;
        std::map<std::pair<uint32_t, bool>, bool> waiting;  // by peer and direction: the order within is kept
        for (Progress& p : transfers_) {
            bool& held = waiting[{p.transfer.peer, p.transfer.send}];
            if (p.done || (held && !p.shown)) continue;
            moved = advance(p) || moved;
            held = held || !(p.done || p.shown);
        }
        return moved;
    };
    while (!pending().empty()) {
        if (step()) continue;
        const auto now = Clock::now();
        const bool patient = std::ranges::any_of(
            transfers_, [&](auto& p) { return p.shown && !p.done && now - p.since < kPatience; });
        if (patient) {  // comes back to make the copies
            const uint32_t seen = bell;
            if (!step()) futex_wait(bell, seen, static_cast<int>(kPatience.count()));
            continue;
        }
        communicator_->await(bell, function_, step, pending);
    }
}

}  // namespace

HcclResult enqueue(const char* function, std::shared_ptr<Communicator> communicator,
                   std::vector<Transfer> transfers, aclrtStream stream) {
    const Engine engine = communicator->size == 1 ? Engine::copy : Engine::host;
    const aclError error = launch_made(
        stream, function,
        [function, communicator = std::move(communicator), transfers = std::move(transfers)] {
            return std::make_unique<Messages>(function, communicator, transfers);
        },
        engine);
    return error == ACL_SUCCESS ? HCCL_SUCCESS : HCCL_E_RUNTIME;
}

}  // namespace npu::emulator::hccl
