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
inline uint16_t float_to_f16(float value) {
    const auto half = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
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
