// Rotary position embedding, forward and backward. cos and sin broadcast against x.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

enum Mode : int64_t { kHalf = 0, kInterleave = 1, kQuarter = 2, kInterleaveHalf = 3 };

void check_mode(int64_t mode, const Tensor& x) {
    TORCH_CHECK(mode >= kHalf && mode <= kInterleaveHalf, "mode is ", mode,
                "; known are 0 (half), 1 (interleave), 2 (quarter) and 3 (interleave-half)");
    const auto unit = mode == kQuarter ? 4 : 2;
    TORCH_CHECK(x.size(-1) % unit == 0, "the last dimension ", x.size(-1), " is not a multiple of ", unit);
}

Tensor even(const Tensor& x) { return x.slice(-1, 0, std::nullopt, 2); }
Tensor odd(const Tensor& x) { return x.slice(-1, 1, std::nullopt, 2); }
Tensor alternating(const Tensor& first, const Tensor& second) {
    return at::stack({first, second}, -1).flatten(-2);
}

// What cos multiplies.
Tensor straight(const Tensor& x, int64_t mode) {
    return mode == kInterleaveHalf ? at::cat({even(x), odd(x)}, -1) : x;
}

// What sin multiplies: every pair turned by a right angle.
Tensor turned(const Tensor& x, int64_t mode) {
    switch (mode) {
        case kInterleave:
            return alternating(-odd(x), even(x));
        case kQuarter: {
            const auto part = x.chunk(4, -1);
            return at::cat({-part[1], part[0], -part[3], part[2]}, -1);
        }
        case kInterleaveHalf:
            return at::cat({-odd(x), even(x)}, -1);
        default: {
            const auto part = x.chunk(2, -1);
            return at::cat({-part[1], part[0]}, -1);
        }
    }
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
    check_mode(mode, x);
    const auto wide = widen(x);
    const auto type = wide.scalar_type();
    return straight(wide, mode) * cos.to(type) + turned(wide, mode) * sin.to(type);
}

// The transposes of straight and turned, applied to what arrives.
Tensor rotate_back(const Tensor& by_cos, const Tensor& by_sin, int64_t mode) {
    if (mode != kInterleaveHalf) return by_cos - turned(by_sin, mode);
    const auto plain = by_cos.chunk(2, -1), quarter = by_sin.chunk(2, -1);
    return alternating(plain[0] + quarter[1], plain[1] - quarter[0]);
}

void backward(const Tensor& dy, const Tensor& cos, const Tensor& sin, const std::optional<Tensor>& x,
              int64_t mode, const Tensor& dx, const std::optional<Tensor>& dcos,
              const std::optional<Tensor>& dsin) {
    check_mode(mode, dy);
    const auto up = widen(dy);
    const auto type = up.scalar_type();
    write(dx, rotate_back(up * cos.to(type), up * sin.to(type), mode));
    if (!x) {
        // Nobody can use them: not a number rather than what was in the memory before.
        if (dcos) dcos->fill_(std::numeric_limits<double>::quiet_NaN());
        if (dsin) dsin->fill_(std::numeric_limits<double>::quiet_NaN());
        return;
    }
    const auto input = x->to(type);
    if (dcos) write(*dcos, at::sum_to(up * straight(input, mode), cos.sizes()));
    if (dsin) write(*dsin, at::sum_to(up * turned(input, mode), sin.sizes()));
}

void apply(const Tensor& query, const Tensor& key, const Tensor& cos, const Tensor& sin, int64_t layout,
           const std::string& name) {
    TORCH_CHECK(layout >= 1 && layout <= 4, "layout is ", layout,
                "; known are 1 (BSND), 2 (SBND), 3 (BNSD), 4 (TND)");
    TORCH_CHECK(name == "half" || name == "quarter" || name == "interleave", "rotaryMode is ", name,
                ", it must be half, quarter or interleave");
    TORCH_CHECK(cos.size(-1) == query.size(-1) && cos.size(-1) == key.size(-1), "the heads of query (",
                query.size(-1), ") and key (", key.size(-1), ") and cos (", cos.size(-1),
                ") must have one size");
    const int64_t mode = name == "half" ? kHalf : name == "quarter" ? kQuarter : kInterleave;
    write(query, rotate(query, cos, sin, mode));
    write(key, rotate(key, cos, sin, mode));
}

const Table table{
    {"aclnnRotaryPositionEmbedding", [](const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode,
                                        const Tensor& out) { write(out, rotate(x, cos, sin, mode)); }},
    // rotate, where given, is the matrix that turns x.
    {"aclnnRotaryPositionEmbeddingV2",
     [](const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode,
        const std::optional<Tensor>& matrix, const Tensor& out) {
         if (!matrix) return write(out, rotate(x, cos, sin, mode));
         const auto wide = widen(x);
         const auto type = wide.scalar_type();
         write(out, wide * cos.to(type) + at::matmul(wide, matrix->to(type)) * sin.to(type));
     }},
    {"aclnnRotaryPositionEmbeddingGrad",
     [](const Tensor& dy, const Tensor& cos, const Tensor& sin, const std::optional<Tensor>& x, int64_t mode,
        const Tensor& dx, const std::optional<Tensor>& dcos,
        const std::optional<Tensor>& dsin) { backward(dy, cos, sin, x, mode, dx, dcos, dsin); }},
    {"aclnnInterleaveRope", [](const Tensor& x, const Tensor& cos, const Tensor& sin,
                               const Tensor& out) { write(out, rotate(x, cos, sin, kInterleaveHalf)); }},
    {"aclnnApplyRotaryPosEmb",
     [](const Tensor& query, const Tensor& key, const Tensor& cos, const Tensor& sin, int64_t layout) {
         apply(query, key, cos, sin, layout, "half");
     }},
    {"aclnnApplyRotaryPosEmbV2",
     [](const Tensor& query, const Tensor& key, const Tensor& cos, const Tensor& sin, int64_t layout,
        const std::string& mode) { apply(query, key, cos, sin, layout, mode); }},
};

}  // namespace
}  // namespace npu::emulator
