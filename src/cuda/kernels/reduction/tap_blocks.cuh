#pragma once

// How CTAs divide the taps into blocks: in the reduced and in the swept form, along each dimension.
#include "reduction/grad_weight.cuh"

namespace {

constexpr int kTapBlocksD = (kKernelD + kBlockTapsD - 1) / kBlockTapsD;
constexpr int kTapBlocksH = (kKernelH + kBlockTapsH - 1) / kBlockTapsH;
constexpr int kTapBlocksW = (kKernelW + kBlockTapsW - 1) / kBlockTapsW;

/// Takes the block of taps of a CTA from its number, by the first one.
__device__ __forceinline__ void next_taps(CtaNumber& number, int& tap_d, int& tap_h, int& tap_w) {
    tap_w = number.next(kTapBlocksW) * kBlockTapsW;
    tap_h = number.next(kTapBlocksH) * kBlockTapsH;
    tap_d = number.next(kTapBlocksD) * kBlockTapsD;
}

} // namespace
