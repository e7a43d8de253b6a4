#pragma once

// What both ways share to rearrange input whose elements do not simply follow one another: rows of bwd_data that a
// stride divides among input planes, and rows that come as ranges. With stride 2 along W:
//
//     a raw row       a b c d e f g h
//     staged planes   a c e g  and  b d f h     each a row of positions
//
// 16 bits from channel planes: ldmatrix gives a lane one element of each eight of a row. Where these all belong to one
// input plane, they are a constant distance apart (load/deinterleave.cuh); elsewhere the position of each is computed
// (rearrange_halves of load/rearrange.cuh). fp32 and ranges: a lane moves element by element, by a table of where each
// lies and where it belongs (load/elements.cuh).
//
// Neighbouring lanes have neighbouring elements of a row, so that their loads are in different banks. So are their
// stores: the input planes along W begin at different positions modulo the eight that fill all banks (kInPlanePitch).
#include "load/core_rows.cuh"
#include "schedule/items.cuh"
#include "schedule/pipeline.cuh"

namespace {

/// Whether elements that are eight apart in a raw row belong to the same input plane.
constexpr bool kLanesStay =
    8 % kInStrideW == 0 && (kSource == Source::rows || (kSource == Source::whole_planes && kInW % 8 == 0));
constexpr bool kDeinterleavesHalves = kHasPlanes && kDeinterleaves && kWordChannels == 2 && kLanesStay;

// ---- Core matrices ----

constexpr int kCoreChannels = 4 * kWordChannels;
constexpr int kCores = 2 * kSteps; // of a position

/// Core matrices of a position that get elements. Where a group has fewer channels than a stage has room for, the
/// others are spare and hold zeros.
constexpr int kFilledCores = (kDeinterleavesHalves || kRearrangesElements) && kChunks == 1
                                 ? (kInChannels + kCoreChannels - 1) / kCoreChannels
                                 : kCores;

/// Puts zeros into the spare core matrices of all stages, once.
__device__ __forceinline__ void clear_spare_cores(const Pipeline& pipe) {
    const uint32_t zeros[4] = {};
    constexpr int kSpareBytes = (kCores - kFilledCores) * kPlaneBytes;
#pragma unroll 1
    for (int at = threadIdx.x * 16; at < kStages * kParts * kSpareBytes; at += kThreads * 16) {
        const int part = at / (kSpareBytes > 0 ? kSpareBytes : 1);
        ptx::store_shared(pipe.in.data + at + (part + 1) * (kFilledCores * kPlaneBytes), zeros);
    }
    if constexpr (kWgmma) ptx::fence_shared_async();
}

// ---- Where a raw stage has what, and where it belongs ----

// Planes that come whole come without their halo: the row and the column at position 0 of input plane 0, counted from
// the first ones of the input. Other raw stages begin there.
constexpr int kFirstRow = kWholeRows ? kShiftMinH * kInStrideH : 0;
constexpr int kFirstColumn = kWholeRows ? kShiftMinW * kInStrideW : 0;
constexpr int kRawElementBytes = 16 / kRawAlign;

__device__ __forceinline__ int raw_image_bytes(const Geometry& geometry) {
    return kStageChannels * geometry.raw_pitch() * (kSource == Source::rows ? kBoxRows : 1) * kRawElementBytes;
}

/// A row of the input in a raw stage, which has it for each channel.
struct RawLine {
    const Geometry& geometry;
    int image, row;
    PlaneElement<kInStrideH> h;
    __device__ __forceinline__ RawLine(const Geometry& of, uint32_t line)
        : geometry(of), image(kImages == 1 ? 0 : line / kBoxRows), row(line - image * kBoxRows),
          h(kInPlaneH, row - kFirstRow) {}
    __device__ __forceinline__ bool exists() const { return h.below(geometry.rows()); }
    /// The position at which it begins, in the first of its input planes along W.
    __device__ __forceinline__ int position() const {
        return image * geometry.image_pitch() + h.place * (kInPlanesW * geometry.plane_pitch()) +
               static_cast<int>(h.position) * geometry.row_pitch();
    }
    /// The byte of the raw stage at which it begins in the first channel.
    __device__ __forceinline__ int bytes() const {
        return image * raw_image_bytes(geometry) +
               row * (kWholeRows ? kInW : kStageChannels * kRawPitch) * kRawElementBytes;
    }
};

} // namespace
