// What a fused region does on one tile: an operator by its tile body where it has one, else by its row, and
// copies of memory that is not dense.
#pragma once

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "aclop/row_call.h"
#include "kernels/tile.h"
#include "kernels/tile_move.h"

namespace npu::ge {

/// Memory that a tile body reads or writes: it stays where it is, or a window moves it from tile to tile.
struct Spot {
    std::byte* fixed = nullptr;
    std::byte* const* moving = nullptr;  ///< where the window keeps its address; null: fixed

    std::byte* address() const { return moving != nullptr ? *moving : fixed; }
};

/// A tile body bound to memory, or several that became a chain. run() may be called again and again.
class TileCall {
  public:
    struct Input {
        Spot spot;
        bool single = false;
    };
    /// `scratch`: where the result is computed to be streamed to `output`, past the caches; null: in place.
    /// `code`: tile::link_code() of an operator on floats, else -1.
    TileCall(emulator::tile::Body body, int code, std::vector<Input> inputs, Spot output, int64_t elements,
             std::size_t element_size, std::byte* scratch)
        : body_(body),
          code_(code),
          inputs_(std::move(inputs)),
          output_(output),
          scratch_(scratch),
          elements_(elements),
          bytes_(elements * static_cast<int64_t>(element_size)) {}

    /// Makes `next` part of this call, which takes this one's result as its input number `carried` and is its
    /// only reader. False: one of them cannot be a link of a chain.
    bool absorb(const TileCall& next, std::size_t carried) {
        const auto link = next.as_link(carried);
        if (!link || links_.size() == kMostLinks || (links_.empty() && !start_chain())) return false;
        links_.push_back(*link);
        output_ = next.output_;
        scratch_ = next.scratch_;
        return true;
    }

    void run() const {
        if (!links_.empty()) return run_chain();
        std::array<emulator::tile::Operand, kMostInputs> operands;
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            operands[i] = {inputs_[i].spot.address(), inputs_[i].single};
        std::byte* const target = output_.address();
        body_(scratch_ != nullptr ? scratch_ : target, operands.data(), elements_);
        if (scratch_ != nullptr) emulator::tile::stream(target, scratch_, bytes_);
    }

    static constexpr std::size_t kMostInputs = 4;

  private:
    struct Link {
        int code;
        std::optional<Spot> element;
        bool element_first;
    };
    static constexpr std::size_t kMostLinks = 64;  // nodes of a fused region

    /// Nothing: it is no operator of chains, or its other operand is more than a single element.
    std::optional<Link> as_link(std::size_t carried) const {
        if (code_ < 0 || inputs_.size() > 2 || inputs_[carried].single) return std::nullopt;
        if (inputs_.size() == 1) return Link{code_, std::nullopt, false};
        const Input& other = inputs_[1 - carried];
        return other.single ? std::optional(Link{code_, other.spot, carried == 1}) : std::nullopt;
    }

    /// The body's own operator becomes the first link.
    bool start_chain() {
        const std::size_t carried = inputs_[0].single ? 1 : 0;
        if (carried >= inputs_.size()) return false;
        const auto link = as_link(carried);
        if (!link) return false;
        links_ = {*link};
        inputs_ = {inputs_[carried]};
        return true;
    }

    void run_chain() const {
        std::array<emulator::tile::Link, kMostLinks> links;
        for (std::size_t i = 0; i < links_.size(); ++i) {
            const auto& [code, element, first] = links_[i];
            links[i] = {code, element ? reinterpret_cast<const float*>(element->address()) : nullptr, first};
        }
        std::byte* const target = output_.address();
        emulator::tile::chain()(reinterpret_cast<float*>(scratch_ != nullptr ? scratch_ : target),
                                reinterpret_cast<const float*>(inputs_[0].spot.address()), links.data(),
                                links_.size(), elements_);
        if (scratch_ != nullptr) emulator::tile::stream(target, scratch_, bytes_);
    }

    emulator::tile::Body body_;
    int code_;
    std::vector<Input> inputs_;
    std::vector<Link> links_;  ///< of a chain, which then takes the body's place
    Spot output_;
    std::byte* scratch_;
    int64_t elements_, bytes_;
};

/// Memory copied to where it lies otherwise: a tile body takes and makes dense memory.
class MoveCall {
  public:
    MoveCall(emulator::tile::Move move, Spot to, Spot from) : move_(std::move(move)), to_(to), from_(from) {}
    void run() const { move_.run(to_.address(), from_.address()); }

  private:
    emulator::tile::Move move_;
    Spot to_, from_;
};

using Call = std::variant<aclop::RowCall, TileCall, MoveCall>;

}  // namespace npu::ge
