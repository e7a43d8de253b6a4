#pragma once

#include "base/ptx.cuh"

// The element types of tensors, and the way between them and the type that sums are kept in: float, double for double.
// The host's prelude says which ones a kernel uses: `using Storage = Bf16; using Compute = float;`.

struct Bf16 {
    uint16_t bits;
};

struct F16 {
    uint16_t bits;
};

__device__ __forceinline__ float to_compute(float value) {
    return value;
}
__device__ __forceinline__ double to_compute(double value) {
    return value;
}
__device__ __forceinline__ float to_compute(Bf16 value) {
    return ptx::bf16_to_float(value.bits);
}
__device__ __forceinline__ float to_compute(F16 value) {
    return ptx::f16_to_float(value.bits);
}

/// Rounds to nearest, ties to even.
__device__ __forceinline__ void to_storage(float value, float& stored) {
    stored = value;
}
__device__ __forceinline__ void to_storage(double value, double& stored) {
    stored = value;
}
__device__ __forceinline__ void to_storage(float value, Bf16& stored) {
    stored.bits = ptx::float_to_bf16(value);
}
__device__ __forceinline__ void to_storage(float value, F16& stored) {
    stored.bits = ptx::float_to_f16(value);
}

/// A value of fp32 for tensor cores: part 0 is it in tf32, part 1 what that leaves out.
__device__ __forceinline__ uint32_t tf32_part(float value, int part) {
    const uint32_t high = ptx::float_to_tf32(value);
    return part == 0 ? high : ptx::float_to_tf32(value - __uint_as_float(high));
}

/// Two neighbours in one word.
__device__ __forceinline__ uint32_t to_word(float first, float second, Bf16) {
    return ptx::floats_to_bf16(first, second);
}
__device__ __forceinline__ uint32_t to_word(float first, float second, F16) {
    return ptx::floats_to_f16(first, second);
}

template <typename Element>
__device__ __forceinline__ auto load(const Element* element) {
    return to_compute(*element);
}

/// For tensors that the kernel does not write: the load may pass by the cache for read-only data.
template <typename Element>
__device__ __forceinline__ auto load_readonly(const Element* element) {
    if constexpr (sizeof(Element) == 2) {
        return to_compute(Element{__ldg(reinterpret_cast<const uint16_t*>(element))});
    } else {
        return to_compute(__ldg(element));
    }
}

template <typename Element, typename Value>
__device__ __forceinline__ void store(Element* element, Value value) {
    to_storage(value, *element);
}

/// Neighbouring elements that move in one access: the address must be a multiple of the whole size.
template <typename Element, int kCount>
struct alignas(sizeof(Element) * kCount) Pack {
    Element elements[kCount];
};

/// The unsigned type of that many bytes, for elements that only travel.
template <int kBytes>
struct Unsigned;
template <>
struct Unsigned<2> {
    using Type = uint16_t;
};
template <>
struct Unsigned<4> {
    using Type = uint32_t;
};
template <>
struct Unsigned<8> {
    using Type = uint2;
};
template <>
struct Unsigned<16> {
    using Type = uint4;
};

/// The neighbours from `first` on, 2 to 16 bytes of a tensor that the kernel does not write, or zeros.
template <int kCount, typename Element>
__device__ __forceinline__ Pack<Element, kCount> load_readonly_if(bool wanted, const Element* first) {
    using Words = typename Unsigned<sizeof(Element) * kCount>::Type;
    const Words words = wanted ? __ldg(reinterpret_cast<const Words*>(first)) : Words{};
    Pack<Element, kCount> pack;
    memcpy(&pack, &words, sizeof pack);
    return pack;
}

/// The neighbours from kOffset elements behind `first` on, or zeros. Several loads may share `first`: the offset is a
/// part of the instruction.
template <int kCount, int64_t kOffset, typename Element>
__device__ __forceinline__ Pack<Element, kCount> load_readonly_at_if(bool wanted, const Element* first) {
    constexpr int kBytes = sizeof(Element) * kCount;
    constexpr int64_t kOffsetBytes = kOffset * static_cast<int64_t>(sizeof(Element));
    constexpr bool kIsNear = kOffsetBytes >= -(1 << 23) && kOffsetBytes < 1 << 23; // instructions have 24 bits for it
    using Word = typename Unsigned<kBytes == 2 ? 2 : 4>::Type;
    Word words[kBytes / sizeof(Word)] = {};
    constexpr int kImmediate = kIsNear ? static_cast<int>(kOffsetBytes) : 0;
    ptx::load_readonly_if<kImmediate>(wanted, kIsNear ? first : first + kOffset, words);
    Pack<Element, kCount> pack;
    memcpy(&pack, words, sizeof pack);
    return pack;
}

/// Converts all elements of a pack. In bf16 a word has two of them, which are shifted or masked: the compiler would cut
/// the second one out before it shifts it.
template <int kCount, typename Element, typename Value>
__device__ __forceinline__ void to_compute(const Pack<Element, kCount>& pack, Value (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = to_compute(pack.elements[i]);
}
template <int kCount>
__device__ __forceinline__ void to_compute(const Pack<Bf16, kCount>& pack, float (&values)[kCount]) {
    if constexpr (kCount == 1) {
        values[0] = to_compute(pack.elements[0]);
    } else {
        uint32_t words[kCount / 2];
        memcpy(words, &pack, sizeof pack);
#pragma unroll
        for (int i = 0; i < kCount / 2; ++i) {
            values[2 * i] = __uint_as_float(words[i] << 16);
            values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000);
        }
    }
}

/// Stores a value of 2, 4, 8 or 16 bytes, or nothing.
template <typename Value>
__device__ __forceinline__ void store_if(bool wanted, Value* to, const Value& value) {
    using Word = typename Unsigned<sizeof(Value) == 2 ? 2 : 4>::Type;
    Word words[sizeof(Value) / sizeof(Word)];
    memcpy(words, &value, sizeof value);
    ptx::store_if(wanted, to, words);
}

/// The first of two types if the condition holds, else the second one.
template <bool kCondition, typename First, typename Second>
struct SelectedType {
    using Type = First;
};
template <typename First, typename Second>
struct SelectedType<false, First, Second> {
    using Type = Second;
};
template <bool kCondition, typename First, typename Second>
using Select = typename SelectedType<kCondition, First, Second>::Type;
