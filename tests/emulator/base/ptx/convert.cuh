#pragma once

#include "device.hpp"
#include "shared/bf16_rounding.cuh"

namespace ptx {

inline float bf16_to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline uint16_t float_to_bf16(float value) {
    return tconv3d::cuda::bf16_rounded(bits_of(value));
}
/// Compilers call a function to convert _Float16, which takes half of the time of many products.
inline float f16_to_float(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7FFFu) << 13;
    if (magnitude >= 0x7C00u << 13) return __uint_as_float(sign | 0x7F800000 | magnitude); // infinite, or no number
    return __uint_as_float(sign | magnitude) * 0x1p112f;                                   // what exponents differ by
}
/// Nor has GCC 11 that type. To nearest, ties to even.
inline uint16_t float_to_f16(float value) {
    const uint32_t sign = bits_of(value) >> 16 & 0x8000, magnitude = bits_of(value) & 0x7FFFFFFF;
    uint32_t half;
    if (magnitude > 0x7F800000) {
        half = 0x7E00 | (magnitude >> 13 & 0x3FF); // no number
    } else if (magnitude >= 0x477FF000) {
        half = 0x7C00; // from 65520 on, infinite
    } else if (magnitude < 0x38800000) {
        half = bits_of(__uint_as_float(magnitude) + 0.5f) - bits_of(0.5f); // the last bit of the sum is 2^-24
    } else {
        half = (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    }
    return static_cast<uint16_t>(sign | half);
}
inline uint32_t floats_to_bf16(float first, float second) {
    return float_to_bf16(first) | static_cast<uint32_t>(float_to_bf16(second)) << 16;
}
inline uint32_t floats_to_f16(float first, float second) {
    return float_to_f16(first) | static_cast<uint32_t>(float_to_f16(second)) << 16;
}
inline uint32_t float_to_tf32(float value) {
    return (bits_of(value) + 0x1000) & ~0x1FFFu;
}

} // namespace ptx
