#pragma once

#include <cstdint>
#include <cstring>

namespace tconv3d {

/// Storage of the 16-bit types. Arithmetic happens in float: load, compute, store.
struct BFloat16 {
    uint16_t bits;
};

struct Float16 {
    uint16_t bits;
};

/// The type that values of a storage type are computed in.
template <typename Storage>
struct ComputeOf {
    using type = float;
};

template <>
struct ComputeOf<double> {
    using type = double;
};

template <typename Storage>
using Compute = typename ComputeOf<Storage>::type;

// This header is compiled once per instruction set. Internal linkage keeps the linker from answering a portable
// caller with a copy that holds AVX-512 instructions.
namespace {

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float load(float stored) {
    return stored;
}

inline double load(double stored) {
    return stored;
}

inline float load(BFloat16 stored) {
    return float_of(static_cast<uint32_t>(stored.bits) << 16);
}

inline float load(Float16 stored) {
    constexpr uint32_t kRebias = (127 - 15) << 23;
    const uint32_t sign = (stored.bits & 0x8000u) << 16;
    const uint32_t exponent = stored.bits & 0x7C00u;
    const uint32_t shifted = (stored.bits & 0x7FFFu) << 13;
    // A subnormal has no hidden bit: give it one with the smallest normal exponent, then take it away again.
    const float subnormal = float_of(shifted + kRebias + (1u << 23)) - float_of(kRebias + (1u << 23));
    const uint32_t normal = shifted + kRebias + (exponent == 0x7C00u ? kRebias : 0u);
    return float_of((exponent == 0 ? bits_of(subnormal) : normal) | sign);
}

inline void store(float& stored, float value) {
    stored = value;
}

inline void store(double& stored, double value) {
    stored = value;
}

inline void store(float& stored, double value) {
    stored = static_cast<float>(value);
}

/// Rounds to nearest, ties to even; a NaN stays one.
inline void store(BFloat16& stored, float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40u;
    stored.bits = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
}

/// Rounds to nearest, ties to even; too large becomes infinity, a NaN stays one.
inline void store(Float16& stored, float value) {
    constexpr uint32_t kInfinity = 0x7F800000u;
    constexpr uint32_t kOverflow = (127 + 16) << 23; // 65536, above every finite value
    constexpr uint32_t kSmallestNormal = (127 - 14) << 23;
    // Adding 0.5 aligns the last bit of a float16 subnormal (2^-24) with the last bit of the sum: the FPU rounds.
    constexpr uint32_t kHalf = (127 - 1) << 23;
    const uint32_t sign = bits_of(value) & 0x80000000u;
    const uint32_t bits = bits_of(value) ^ sign;
    const uint32_t special = bits > kInfinity ? 0x7E00u | ((bits >> 13) & 0x3FFu) : 0x7C00u;
    const uint32_t subnormal = bits_of(float_of(bits < kOverflow ? bits : 0u) + float_of(kHalf)) - kHalf;
    const uint32_t normal = (bits - ((127u - 15u) << 23) + 0xFFFu + ((bits >> 13) & 1u)) >> 13;
    const uint32_t finite = bits < kSmallestNormal ? subnormal : normal;
    stored.bits = static_cast<uint16_t>((bits >= kOverflow ? special : finite) | (sign >> 16));
}

inline void store(BFloat16& stored, double value) {
    store(stored, static_cast<float>(value));
}

inline void store(Float16& stored, double value) {
    store(stored, static_cast<float>(value));
}

} // namespace

} // namespace tconv3d
