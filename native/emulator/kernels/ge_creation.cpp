// GE operators that make tensors out of numbers: fills, sequences, diagonals, random numbers.
#include "kernels/delegate.h"
#include "kernels/random.h"
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Number = std::optional<int64_t>;
using Type = std::optional<ScalarType>;

void fill_with(const Tensor& value, const Tensor& y) { y.fill_(only_element(value, "value")); }

void range(const Scalar& start, const Scalar& limit, const Scalar& delta, std::optional<bool> closed,
           const Tensor& y) {
    call_aclnn(closed.value_or(false) ? "aclnnRange" : "aclnnArange", start, limit, delta, y);
}

void eye(int64_t rows, Number columns, IntArrayRef, Number, const Tensor& y) {
    const auto width = columns.value_or(0) == 0 ? rows : *columns;
    TORCH_CHECK(y.dim() >= 2 && y.size(-2) == rows && y.size(-1) == width, "the output has shape ", y.sizes(),
                ", its last dimensions must be ", rows, " and ", width);
    y.copy_(at::eye(rows, width, y.options()));
}

// The diagonal of twice as many dimensions.
void diag(const Tensor& x, const Tensor& y) {
    auto shape = x.sizes().vec();
    shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
    write(y, at::diag_embed(x.reshape({-1})).view(shape));
}
void diag_part(const Tensor& x, const Tensor& y) {
    const auto half = x.dim() / 2;
    TORCH_CHECK(x.dim() % 2 == 0 && x.sizes().slice(0, half) == x.sizes().slice(half), "x has shape ",
                x.sizes(), ", its first half must be its second");
    const auto side = c10::multiply_integers(x.sizes().slice(0, half));
    write(y, x.reshape({side, side}).diagonal().reshape(x.sizes().slice(0, half)));
}

// seed and seed2 both 0 ask for other numbers every time, from the process's generator.
RandomState state(Number seed, Number seed2) {
    const auto first = seed.value_or(0), second = seed2.value_or(0);
    if (first != 0 || second != 0) return {first, second};
    const auto drawn = at::randint(std::numeric_limits<int64_t>::max(), {2}, at::kLong);
    return {drawn[0].item<int64_t>(), drawn[1].item<int64_t>()};
}

// key is the seed, counter 128 bits, low half first. torchair's offset is the high half.
RandomState stateless(const Tensor& key, const Tensor& counter) {
    TORCH_CHECK(key.numel() == 1 && counter.numel() == 2, "key has shape ", key.sizes(), " and counter ",
                counter.sizes(), "; 1 and 2 elements are needed");
    const auto word = [](const Tensor& value, int64_t i) {
        return static_cast<uint64_t>(value.reshape({-1}).view(at::kLong)[i].item<int64_t>());
    };
    constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
    return {static_cast<int64_t>(word(key, 0)),
            static_cast<int64_t>(word(counter, 1) + kSpread * word(counter, 0))};
}

void normal(const Tensor& y, const RandomState& from) {
    write(y, standard_normal(y.sizes(), y.scalar_type(), from));
}

const Table table{
    {Ge{"Fill"}, [](IntArrayRef, const Tensor& value, const Tensor& y) { fill_with(value, y); }},
    {Ge{"FillD", {"dims"}}, [](const Tensor& value, IntArrayRef, const Tensor& y) { fill_with(value, y); }},
    {Ge{"FillV2"},
     [](const Tensor& x, const Tensor& value, const Tensor& y) {
         fill_with(value, x);
         fill_with(value, y);
     }},
    // Zeros also where init does not ask for them: not what was in the memory before.
    {Ge{"Empty", {"dtype", "init"}},
     [](IntArrayRef, Number, std::optional<bool>, const Tensor& y) { y.zero_(); }},
    {Ge{"Range", {"is_closed"}}, range},
    {Ge{"RangeD", {"start", "limit", "delta"}},
     [](const Tensor&, double start, double limit, double delta, const Tensor& y) {
         range(start, limit, delta, false, y);
     }},
    {Ge{"LinSpace"}, [](const Scalar& start, const Scalar& stop, int64_t count,
                        const Tensor& y) { call_aclnn("aclnnLinspace", start, stop, count, y); }},
    {Ge{"Eye", {"num_rows", "num_columns", "batch_shape", "dtype"}}, eye},
    {Ge{"Diag"}, diag},
    {Ge{"DiagPart"}, diag_part},
    {Ge{"MatrixDiag"}, [](const Tensor& x, const Tensor& y) { write(y, at::diag_embed(x)); }},
    {Ge{"MatrixDiagPart"}, [](const Tensor& x, const Tensor& y) { write(y, x.diagonal(0, -2, -1)); }},

    {Ge{"RandomUniform", {"dtype", "seed", "seed2"}},
     [](IntArrayRef, Type, Number seed, Number seed2, const Tensor& y) {
         write_uniform(y, 0, 1, state(seed, seed2));
     }},
    {Ge{"RandomStandardNormal", {"dtype", "seed", "seed2"}},
     [](IntArrayRef, Type, Number seed, Number seed2, const Tensor& y) { normal(y, state(seed, seed2)); }},
    // alg names the generator: ours is Philox for any of them.
    {Ge{"StatelessRandomUniformV2", {"dtype"}},
     [](IntArrayRef, const Tensor& key, const Tensor& counter, const std::optional<Tensor>&, Type,
        const Tensor& y) { write_uniform(y, 0, 1, stateless(key, counter)); }},
    {Ge{"StatelessRandomNormalV2", {"dtype"}},
     [](IntArrayRef, const Tensor& key, const Tensor& counter, const std::optional<Tensor>&, Type,
        const Tensor& y) { normal(y, stateless(key, counter)); }},
    {Ge{"StatelessBernoulli", {"dtype"}},
     [](IntArrayRef, const Tensor& prob, int64_t seed, int64_t offset, Type, const Tensor& y) {
         call_aclnn("aclnnBernoulliTensor", y, prob, seed, offset, y);
     }},
    {Ge{"StatelessRandperm", {"layout?=0", "dtype"}},
     [](int64_t n, int64_t seed, int64_t offset, Type, const Tensor& y) {
         call_aclnn("aclnnRandperm", n, seed, offset, y);
     }},
};

}  // namespace
}  // namespace npu::emulator
