// Copies between memory that lies differently: what a tile body reads or writes is dense, what is outside may
// be a slice, transposed or repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)  // used by ../ge
namespace npu::emulator::tile {

/// Copies elements that stay as they are. Immutable; run() may be called from several threads.
class Move {
  public:
    struct Axis {
        int64_t size;
        int64_t to, from;  ///< strides in bytes; `from` may be 0: the same element again
    };
    /// `element`: bytes, 1, 2, 4, 8 or 16. The memory written must not overlap itself or the memory read.
    Move(std::vector<Axis> axes, std::size_t element);

    void run(void* to, const void* from) const;

  private:
    std::vector<Axis> outer_;  ///< all but the ones below
    Axis rows_{1, 0, 0};       ///< dense where it is read, if `columns_` is not
    Axis columns_{1, 0, 0};    ///< dense where it is written
    std::size_t element_;
};

}  // namespace npu::emulator::tile
#pragma GCC visibility pop
