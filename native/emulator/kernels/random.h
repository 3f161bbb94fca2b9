// Random numbers by position: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011).
//
// An operator is given a seed and an offset. Block b of its numbers is Philox with key = seed and the 128-bit
// counter (low 64 bits: offset, high 64 bits: b); element i of the (logically contiguous) output takes its
// share of block i / N, N being how many elements one block feeds (4 of 32 bits, 2 of 64). So the same seed
// and offset give the same numbers on any number of threads and for any strides, and two operators share no
// number unless seed and offset are equal: any step between offsets is enough (torch_npu advances its
// generator by 12 for most operators).
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <array>

#include "kernels/kernel.h"

namespace npu::emulator {

struct RandomState {
    uint64_t seed, offset;
    RandomState(int64_t seed, int64_t offset)
        : seed(static_cast<uint64_t>(seed)), offset(static_cast<uint64_t>(offset)) {}
    // The graph-capture forms: seed and first offset lie on the device, `offset` is what the graph adds.
    RandomState(const Tensor& seed, const Tensor& first_offset, int64_t offset)
        : RandomState(seed.item().toLong(), first_offset.item().toLong() + offset) {}
};

using RandomWords = std::array<uint32_t, 4>;

inline RandomWords random_block(const RandomState& state, uint64_t block) {
    at::Philox4_32 engine(state.seed, block, state.offset);
    return {engine(), engine(), engine(), engine()};
}

inline uint64_t low_word(const RandomWords& words) { return words[0] | uint64_t{words[1]} << 32; }
inline uint64_t high_word(const RandomWords& words) { return words[2] | uint64_t{words[3]} << 32; }

// out[i] for i < count: make(words, values) turns one block into N values.
template <int N, class T, class Make>
void fill_random(T* out, int64_t count, const RandomState& state, const Make& make) {
    at::parallel_for(0, (count + N - 1) / N, 2048, [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
            T values[N];
            make(random_block(state, static_cast<uint64_t>(block)), values);
            const int64_t first = block * N;
            for (int64_t i = 0; i < N && first + i < count; ++i) out[first + i] = values[i];
        }
    });
}

// In [0, 1), 53 bits.
inline double unit_double(uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }
inline double unit_double(uint32_t word) { return static_cast<double>(word) * 0x1p-32; }

// In [0, range), by multiplication: the bias is below range / 2^64.
inline uint64_t bounded(uint64_t word, uint64_t range) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(word) * range >> 64);
}

// Flags of the given shape, each true with its probability. `probability` broadcasts to the shape.
// Throws when a probability lies outside [0, 1].
Tensor random_flags(IntArrayRef sizes, const Tensor& probability, const RandomState& state);
Tensor random_flags(IntArrayRef sizes, double probability, const RandomState& state);

// float32 (float64 for `type` double) standard normal numbers.
Tensor standard_normal(IntArrayRef sizes, ScalarType type, const RandomState& state);

// Written into `out` with its dtype, in [from, to): never `to` itself, whatever the dtype rounds to, as long
// as the dtype has a number in the interval.
void write_uniform(const Tensor& out, double from, double to, const RandomState& state);

}  // namespace npu::emulator
