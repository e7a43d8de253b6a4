#pragma once

// Conversions between element types. The 16-bit types travel as their bits.
#include "base/types.cuh"
#include "shared/bf16_rounding.cuh"

namespace ptx {

__device__ __forceinline__ float bf16_to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

/// Rounds to nearest, ties to even, as every conversion here but tf32 does.
__device__ __forceinline__ uint16_t float_to_bf16(float value) {
#if __CUDA_ARCH__ >= 800
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return tconv3d::cuda::bf16_rounded(__float_as_uint(value));
#endif
}

__device__ __forceinline__ float f16_to_float(uint16_t bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ uint16_t float_to_f16(float value) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

/// Two values in one word, the first in its low half.
__device__ __forceinline__ uint32_t floats_to_bf16(float first, float second) {
#if __CUDA_ARCH__ >= 800
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
#else
    return float_to_bf16(first) | static_cast<uint32_t>(float_to_bf16(second)) << 16;
#endif
}

__device__ __forceinline__ uint32_t floats_to_f16(float first, float second) {
#if __CUDA_ARCH__ >= 800
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
#else
    return float_to_f16(first) | static_cast<uint32_t>(float_to_f16(second)) << 16;
#endif
}

/// Rounds to tf32, ties away from zero. Without it the tensor cores cut the low bits off.
__device__ __forceinline__ uint32_t float_to_tf32(float value) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

} // namespace ptx
