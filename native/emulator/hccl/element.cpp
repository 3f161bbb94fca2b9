#include "element.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace npu::emulator::hccl {

uint64_t element_size(HcclDataType type) {
    switch (type) {
        case HCCL_DATA_TYPE_INT8:
        case HCCL_DATA_TYPE_UINT8:
        case HCCL_DATA_TYPE_HIF8:
        case HCCL_DATA_TYPE_FP8E4M3:
        case HCCL_DATA_TYPE_FP8E5M2:
        case HCCL_DATA_TYPE_FP8E8M0:
            return 1;
        case HCCL_DATA_TYPE_INT16:
        case HCCL_DATA_TYPE_UINT16:
        case HCCL_DATA_TYPE_FP16:
        case HCCL_DATA_TYPE_BFP16:
            return 2;
        case HCCL_DATA_TYPE_INT32:
        case HCCL_DATA_TYPE_UINT32:
        case HCCL_DATA_TYPE_FP32:
            return 4;
        case HCCL_DATA_TYPE_INT64:
        case HCCL_DATA_TYPE_UINT64:
        case HCCL_DATA_TYPE_FP64:
            return 8;
        case HCCL_DATA_TYPE_INT128:
            return 16;
        default:
            return 0;
    }
}

const char* element_name(HcclDataType type) {
    switch (type) {
        case HCCL_DATA_TYPE_INT8:
            return "int8";
        case HCCL_DATA_TYPE_INT16:
            return "int16";
        case HCCL_DATA_TYPE_INT32:
            return "int32";
        case HCCL_DATA_TYPE_INT64:
            return "int64";
        case HCCL_DATA_TYPE_INT128:
            return "int128";
        case HCCL_DATA_TYPE_UINT8:
            return "uint8";
        case HCCL_DATA_TYPE_UINT16:
            return "uint16";
        case HCCL_DATA_TYPE_UINT32:
            return "uint32";
        case HCCL_DATA_TYPE_UINT64:
            return "uint64";
        case HCCL_DATA_TYPE_FP16:
            return "float16";
        case HCCL_DATA_TYPE_BFP16:
            return "bfloat16";
        case HCCL_DATA_TYPE_FP32:
            return "float32";
        case HCCL_DATA_TYPE_FP64:
            return "float64";
        case HCCL_DATA_TYPE_HIF8:
            return "hifloat8";
        case HCCL_DATA_TYPE_FP8E4M3:
            return "float8_e4m3";
        case HCCL_DATA_TYPE_FP8E5M2:
            return "float8_e5m2";
        case HCCL_DATA_TYPE_FP8E8M0:
            return "float8_e8m0";
        default:
            return "an unknown type";
    }
}

namespace {

struct bfloat16 {
    uint16_t bits;
};

/// IEEE's 16 bits. GCC before 13 has _Float16 in C++ for x86 only, and __fp16 for Arm only.
#if defined(__aarch64__)
using half = __fp16;
#else
using half = _Float16;
#endif

template <class T>
struct Conversion {  // stored as T, accumulated as T
    using Sum = T;
    static Sum load(T value) { return value; }
    static T round(Sum value) { return value; }
};

template <>
struct Conversion<half> {
    using Sum = float;
    static Sum load(half value) { return static_cast<float>(value); }
    static half round(Sum value) { return static_cast<half>(value); }
};

template <>
struct Conversion<bfloat16> {
    using Sum = float;
    static Sum load(bfloat16 value) {
        const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
        float result;
        std::memcpy(&result, &bits, sizeof result);
        return result;
    }
    static bfloat16 round(Sum value) {  // to nearest, ties to even
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
        const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
        return {static_cast<uint16_t>(nan ? 0x7fc0U : rounded)};
    }
};

template <HcclReduceOp op, class T>
T combine(T a, T b) {
    if constexpr (op == HCCL_REDUCE_MAX) {
        if constexpr (std::is_floating_point_v<T>) return a > b || a != a ? a : b;
        return a > b ? a : b;
    } else if constexpr (op == HCCL_REDUCE_MIN) {
        if constexpr (std::is_floating_point_v<T>) return a < b || a != a ? a : b;
        return a < b ? a : b;
    } else if constexpr (std::is_integral_v<T>) {
        // Wide enough that short unsigned factors are not promoted to int, whose overflow is undefined.
        const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
        return static_cast<T>(op == HCCL_REDUCE_SUM ? x + y : x * y);
    } else {
        return op == HCCL_REDUCE_SUM ? a + b : a * b;
    }
}

/// Elements that are reduced at a time: their sums stay in the first-level cache, whatever the number of
/// blocks.
constexpr std::size_t kTile = 1024;

template <HcclReduceOp op, class T>
void reduce(void* out, std::span<const void* const> blocks, std::size_t elements) {
    using Convert = Conversion<T>;
    typename Convert::Sum sum[kTile];
    T rounded[kTile];
    for (std::size_t begin = 0; begin < elements; begin += kTile) {
        const std::size_t n = std::min(kTile, elements - begin);
        auto block = [&](std::size_t i) { return static_cast<const T*>(blocks[i]) + begin; };
        const T* a = block(0);
        if (blocks.size() == 1) {
            for (std::size_t i = 0; i < n; ++i) sum[i] = Convert::load(a[i]);
        } else {
            const T* b = block(1);
            for (std::size_t i = 0; i < n; ++i)
                sum[i] = combine<op>(Convert::load(a[i]), Convert::load(b[i]));
        }
        for (std::size_t next = 2; next < blocks.size(); ++next) {
            const T* b = block(next);
            for (std::size_t i = 0; i < n; ++i) sum[i] = combine<op>(sum[i], Convert::load(b[i]));
        }
        const void* done = sum;
        if constexpr (!std::is_same_v<T, typename Convert::Sum>) {
            for (std::size_t i = 0; i < n; ++i) rounded[i] = Convert::round(sum[i]);
            done = rounded;
        }
        std::memcpy(static_cast<T*>(out) + begin, done, n * sizeof(T));
    }
}

template <class T>
Reducer::Function function(HcclReduceOp op) {
    switch (op) {
        case HCCL_REDUCE_SUM:
            return reduce<HCCL_REDUCE_SUM, T>;
        case HCCL_REDUCE_PROD:
            return reduce<HCCL_REDUCE_PROD, T>;
        case HCCL_REDUCE_MAX:
            return reduce<HCCL_REDUCE_MAX, T>;
        default:
            return reduce<HCCL_REDUCE_MIN, T>;
    }
}

Reducer::Function function(HcclDataType type, HcclReduceOp op) {
    switch (type) {
        case HCCL_DATA_TYPE_INT8:
            return function<int8_t>(op);
        case HCCL_DATA_TYPE_INT16:
            return function<int16_t>(op);
        case HCCL_DATA_TYPE_INT32:
            return function<int32_t>(op);
        case HCCL_DATA_TYPE_INT64:
            return function<int64_t>(op);
        case HCCL_DATA_TYPE_UINT8:
            return function<uint8_t>(op);
        case HCCL_DATA_TYPE_UINT16:
            return function<uint16_t>(op);
        case HCCL_DATA_TYPE_UINT32:
            return function<uint32_t>(op);
        case HCCL_DATA_TYPE_UINT64:
            return function<uint64_t>(op);
        case HCCL_DATA_TYPE_FP16:
            return function<half>(op);
        case HCCL_DATA_TYPE_BFP16:
            return function<bfloat16>(op);
        case HCCL_DATA_TYPE_FP32:
            return function<float>(op);
        case HCCL_DATA_TYPE_FP64:
            return function<double>(op);
        default:
            return nullptr;
    }
}

}  // namespace

bool Reducer::supports(HcclDataType type) { return function(type, HCCL_REDUCE_SUM) != nullptr; }

Reducer::Reducer(HcclDataType type, HcclReduceOp op) : function_(function(type, op)) {}

}  // namespace npu::emulator::hccl
