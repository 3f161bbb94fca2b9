// Dropout. A mask is one bit an element in uint8, the first element in the lowest bit, padded to a multiple
// of 128 elements (as CANN documents it for aclnnDropoutGenMask); a set bit keeps. The V3 GE operators use a
// byte instead.
#include "kernels/random.h"

namespace npu::emulator {
namespace {

constexpr int64_t kAlignment = 128;  // elements

int64_t mask_bytes(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment / 8; }

void check_probability(double p, const char* name) {
    TORCH_CHECK(p >= 0 && p <= 1, "expects ", name, " in [0, 1], got ", p);
}

// Bits of the padding are drawn too, so that the mask does not depend on where the elements end.
void generate_bits(int64_t elements, double keep, const RandomState& state, const Tensor& out) {
    check_probability(keep, "a probability");
    TORCH_CHECK(out.scalar_type() == at::kByte && out.numel() >= mask_bytes(elements),
                "needs a uint8 mask of ", mask_bytes(elements), " bytes for ", elements, " elements, got ",
                out.scalar_type(), " of ", out.numel());
    const Tensor bits = at::zeros({out.numel()}, at::kByte);
    auto* bytes = bits.data_ptr<uint8_t>();
    at::parallel_for(0, mask_bytes(elements), 1024, [&](int64_t begin, int64_t end) {
        for (int64_t byte = begin; byte < end; ++byte) {
            for (int half = 0; half < 2; ++half) {
                const auto words = random_block(state, static_cast<uint64_t>(byte * 2 + half));
                for (int i = 0; i < 4; ++i) bytes[byte] |= (unit_double(words[i]) < keep) << (half * 4 + i);
            }
        }
    });
    write(out, bits.view(out.sizes()));
}

Tensor unpack_bits(const Tensor& mask, IntArrayRef sizes) {
    const int64_t elements = c10::multiply_integers(sizes);
    TORCH_CHECK(mask.scalar_type() == at::kByte && mask.numel() * 8 >= elements, "needs a uint8 mask of ",
                mask_bytes(elements), " bytes for ", elements, " elements, got ", mask.scalar_type(), " of ",
                mask.numel());
    const Tensor packed = mask.contiguous();
    Tensor flags = at::empty(sizes, at::kBool);
    const auto* bytes = packed.const_data_ptr<uint8_t>();
    auto* out = flags.data_ptr<bool>();
    at::parallel_for(0, elements, 1 << 15, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] = bytes[i / 8] >> (i % 8) & 1;
    });
    return flags;
}

// Scaled where kept, 0 elsewhere (also where the input is not finite).
void apply(const Tensor& self, const Tensor& keep, double scale, const Tensor& out) {
    const auto wide = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const Tensor scaled = scale == 1 ? self : self.to(wide).mul(scale);
    write(out, at::where(keep, scaled, at::zeros({}, scaled.options())));
}

double drop_scale(double p) {
    check_probability(p, "p");
    return p == 1 ? 0 : 1 / (1 - p);
}

void dropout(const Tensor& self, double p, const RandomState& state, const Tensor& out, const Tensor& mask) {
    generate_bits(self.numel(), 1 - p, state, mask);
    apply(self, unpack_bits(mask, self.sizes()), drop_scale(p), out);
}

void dropout_backward(const Tensor& grad, const Tensor& mask, double scale, const Tensor& out) {
    TORCH_CHECK(scale == 0 || scale >= 1, "expects a scale of 0 or at least 1, got ", scale);
    if (scale == 1) return write(out, grad);  // CANN: 1 leaves the gradient as it is, whatever the mask
    apply(grad, unpack_bits(mask, grad.sizes()), scale, out);
}

// GE: the mask operators are given the probability to keep, as a tensor of x's type.
double ge_scale(const Tensor& keep) {
    const double value = keep.item().toDouble();
    check_probability(value, "keep_prob");
    return value == 0 ? 0 : 1 / value;
}

int64_t elements_of(const Tensor& shape) { return shape.to(at::kLong).prod().item().toLong(); }

const Table table{
    {"aclnnDropoutGenMask",
     [](IntArrayRef shape, double p, int64_t seed, int64_t offset, const Tensor& out) {
         generate_bits(c10::multiply_integers(shape), 1 - p, {seed, offset}, out);
     }},
    {"aclnnDropoutGenMaskV2",  // the dtype says in which precision the device compares: every number is kept
                               // here
     [](IntArrayRef shape, double p, int64_t seed, int64_t offset, ScalarType, const Tensor& out) {
         generate_bits(c10::multiply_integers(shape), 1 - p, {seed, offset}, out);
     }},
    {"aclnnDropoutGenMaskV2Tensor",
     [](IntArrayRef shape, double p, const Tensor& seed, const Tensor& first, int64_t offset, ScalarType,
        const Tensor& out) {
         generate_bits(c10::multiply_integers(shape), 1 - p, {seed, first, offset}, out);
     }},
    {"aclnnDropoutDoMask",
     [](const Tensor& self, const Tensor& mask, double p, const Tensor& out) {
         apply(self, unpack_bits(mask, self.sizes()), drop_scale(p), out);
     }},
    {"aclnnDropout",
     [](const Tensor& self, double p, bool train, int64_t seed, int64_t offset, const Tensor& out,
        const Tensor& mask) {
         if (train) return dropout(self, p, {seed, offset}, out, mask);
         mask.fill_(0xFF);
         write(out, self);
     }},
    {"aclnnDropoutV3",
     [](const Tensor& self, std::optional<Tensor> noise_shape, double p, int64_t seed, int64_t offset,
        const Tensor& out, const Tensor& mask) {
         TORCH_CHECK(!noise_shape || noise_shape->numel() == 0,
                     "optionalNoiseShape is reserved and must be null");
         dropout(self, p, {seed, offset}, out, mask);
     }},
    {"aclnnDropoutBackward", dropout_backward},
    {"aclnnDropoutV3Grad", dropout_backward},

    {Ge{"StatelessDropOutGenMask"},
     [](const Tensor& shape, const Tensor& keep, const Tensor& seed, const Tensor& seed1,
        std::optional<Tensor> offset, const Tensor& out) {
         TORCH_CHECK(seed1.item().toLong() == 0, "seed1 must be 0, got ", seed1.item().toLong());
         // The counter's start, low word last in a list of two (torch_npu: {0, offset}).
         const int64_t counter = offset ? offset->reshape({-1})[-1].item().toLong() : 0;
         TORCH_CHECK(!offset || offset->numel() == 1 || offset->reshape({-1})[0].item().toLong() == 0,
                     "the first word of offset must be 0");
         generate_bits(elements_of(shape), keep.item().toDouble(), {seed.item().toLong(), counter}, out);
     }},
    {Ge{"DropOutDoMask"},
     [](const Tensor& x, const Tensor& mask, const Tensor& keep, const Tensor& out) {
         apply(x, unpack_bits(mask, x.sizes()), ge_scale(keep), out);
     }},
    {Ge{"DropOutGenMaskV3", {"seed", "seed2"}},
     [](const Tensor& shape, const Tensor& keep, std::optional<int64_t> seed, std::optional<int64_t> seed2,
        const Tensor& out) {
         const auto flags = random_flags({elements_of(shape)}, keep.item().toDouble(),
                                         {seed.value_or(0), seed2.value_or(0)});
         write(out, flags.view(out.sizes()));
     }},
    {Ge{"DropOutDoMaskV3"},
     [](const Tensor& x, const Tensor& mask, const Tensor& keep, const Tensor& out) {
         apply(x, mask.ne(0).view(x.sizes()), ge_scale(keep), out);
     }},
};

}  // namespace
}  // namespace npu::emulator
