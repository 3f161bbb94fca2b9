// One operator of a fused region on one tile: by its tile body where it has one, else by its row.
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "aclop/row_call.h"
#include "kernels/tile.h"

namespace npu::ge {

/// Memory that a tile body reads or writes: it stays where it is, or a window moves it from tile to tile.
struct Spot {
    std::byte* fixed = nullptr;
    std::byte* const* moving = nullptr;  ///< where the window keeps its address; null: fixed

    std::byte* address() const { return moving != nullptr ? *moving : fixed; }
};

/// A tile body bound to memory. Immutable once made; run() may be called again and again.
class TileCall {
  public:
    struct Input {
        Spot spot;
        bool single = false;
    };
    /// `scratch`: where the result is computed to be streamed to `output`, past the caches; null: in place.
    TileCall(emulator::tile::Body body, std::vector<Input> inputs, Spot output, int64_t elements,
             std::size_t element_size, std::byte* scratch)
        : body_(body),
          inputs_(std::move(inputs)),
          output_(output),
          scratch_(scratch),
          elements_(elements),
          bytes_(elements * static_cast<int64_t>(element_size)) {}

    void run() const {
        std::array<emulator::tile::Operand, kMostInputs> operands;
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            operands[i] = {inputs_[i].spot.address(), inputs_[i].single};
        std::byte* const target = output_.address();
        body_(scratch_ != nullptr ? scratch_ : target, operands.data(), elements_);
        if (scratch_ != nullptr) emulator::tile::stream(target, scratch_, bytes_);
    }

    static constexpr std::size_t kMostInputs = 4;

  private:
    emulator::tile::Body body_;
    std::vector<Input> inputs_;
    Spot output_;
    std::byte* scratch_;
    int64_t elements_, bytes_;
};

using Call = std::variant<aclop::RowCall, TileCall>;

}  // namespace npu::ge
