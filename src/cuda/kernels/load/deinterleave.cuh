#pragma once

// How warps de-interleave channel planes of 16 bits, by ldmatrix: see load/raw_lines.cuh.
#include "load/raw_lines.cuh"
#include "load/tma.cuh"

namespace {

/// Where a lane puts the elements that it gets: one of each eight elements of a row, which belong to the same input
/// plane and are a constant distance apart in it.
struct LaneElements {
    static constexpr int kStep = 8 / kInStrideW; // positions from one to the next
    // Elements are counted from kLeft elements further to the left, so that no number that is divided is negative.
    static constexpr int kLeft = 8 + (kFirstColumn > 0 ? kFirstColumn : 0);
    // The least and the greatest position that a lane's first element may have. A box of rows begins up to 7 elements
    // early.
    static constexpr int kLeast = (kLeft - (kWholeRows ? kFirstColumn : 7)) / kInStrideW - kLeft / kInStrideW;
    static constexpr int kMost = (kLeft + 7 - kFirstColumn) / kInStrideW - kLeft / kInStrideW;
    int place, first; // the input plane of the lane's elements, and the position of the first one

    __device__ __forceinline__ LaneElements(const Item& item, int lane) {
        const PlaneElement<kInStrideW> w(kInPlaneW, lane / 4 + kLeft - (kWholeRows ? kFirstColumn : raw_shift(item)));
        place = w.place;
        first = static_cast<int>(w.position) - kLeft / kInStrideW;
    }
    __device__ __forceinline__ int position() const { return place * kInPlanePitch + first; }
    /// Whether the lane's element of the eight elements from 8 · eight on has a position. Where `eight` is a constant,
    /// so is most of this.
    __device__ __forceinline__ bool exists(int eight) const {
        const int begin = eight * kStep;
        return (kInPlanesW == kInStrideW || place >= 0) && (begin + kLeast >= 0 || begin + first >= 0) &&
               (begin + kMost < kPitch || begin + first < kPitch);
    }
};

/// Rearranges channel planes of 16 bits. Eight elements of eight channels are a matrix, whose columns are rows of core
/// matrices: ldmatrix transposes it. A warp takes a row of all channels, four matrices with a load, many loads before
/// the first store.
__device__ __forceinline__ void deinterleave_halves(const InputWalk& walk, uint32_t to, uint32_t raw, int thread) {
    constexpr int kPowerCores = kFilledCores <= 1 ? 1 : kFilledCores <= 2 ? 2 : kFilledCores <= 4 ? 4 : 8;
    constexpr int kCoresAtOnce = kPowerCores < 4 ? kPowerCores : 4, kEightsAtOnce = 4 / kCoresAtOnce;
    constexpr int kEights = kWholeRows ? (kInW + 7) / 8 : (kRawColumns + 7 + 7) / 8;
    constexpr int kLoads = (kEights + kEightsAtOnce - 1) / kEightsAtOnce, kLoadsAtOnce = kLoads < 4 ? kLoads : 4;
    constexpr int kUnrolled = kLoads <= 16 ? kLoads : 1; // more would be long code
    const int lane = thread % 32;
    const LaneElements elements(walk.item(), lane);
    const Geometry geometry(walk.args);
    to += elements.position() * 16 + lane % 4 * 4;
    raw += ((lane / 8 % kCoresAtOnce * 8 + lane % 8) * kRawPitch + lane / 8 / kCoresAtOnce * 8) * 2;
#pragma unroll 1
    for (int i = thread / 32; i < kImages * kBoxRows; i += kRearrangingWarps) {
        const RawLine line(geometry, i);
        if (!line.exists()) continue;
#pragma unroll
        for (int core = 0; core < kPowerCores; core += kCoresAtOnce) {
            const uint32_t from = raw + line.bytes() + core * (8 * kRawPitch * 2);
            const uint32_t line_to = to + line.position() * 16 + core * kPlaneBytes;
#pragma unroll kUnrolled
            for (int begin = 0; begin < kLoads; begin += kLoadsAtOnce) {
                uint32_t words[kLoadsAtOnce][4];
#pragma unroll
                for (int load = 0; load < kLoadsAtOnce; ++load)
                    if (begin + load < kLoads)
                        ptx::load_matrices_transposed(words[load], from + (begin + load) * kEightsAtOnce * 16);
#pragma unroll
                for (int m = 0; m < 4 * kLoadsAtOnce; ++m) {
                    const int eight = (begin + m / 4) * kEightsAtOnce + m % 4 / kCoresAtOnce;
                    if (eight < kEights && elements.exists(eight))
                        ptx::store_shared(line_to + m % kCoresAtOnce * kPlaneBytes + eight * (LaneElements::kStep * 16),
                                          words[m / 4][m % 4]);
                }
            }
        }
    }
}

} // namespace
