#pragma once

// bf16 where no instruction rounds to it: below compute capability 8.0, and on the host.
#include "base/types.cuh"

namespace tconv3d::cuda {

/// The bits of a float rounded to bf16: to nearest, ties to even. Every NaN becomes the same one, as the instruction
/// has it.
constexpr uint16_t bf16_rounded(uint32_t float_bits) {
    if ((float_bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
    return static_cast<uint16_t>((float_bits + 0x7FFFu + (float_bits >> 16 & 1)) >> 16);
}

} // namespace tconv3d::cuda
