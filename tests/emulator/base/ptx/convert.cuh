#pragma once

#include "device.hpp"

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
    const uint32_t bits = bits_of(value);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline float f16_to_float(uint16_t bits) {
    _Float16 value;
    std::memcpy(&value, &bits, sizeof bits);
    return static_cast<float>(value);
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
