#pragma once

// How warps rearrange the input into core matrices, from raw stages to stages: where TMA brings channel planes, and
// where fp32 is to be split in parts. Rows that a stride divides among input planes, and ranges, have files of their
// own: see load/raw_lines.cuh. What TMA cannot take at all is loaded by load/global.cuh.
#include "load/deinterleave.cuh"
#include "load/elements.cuh"
#include "load/global.cuh"

namespace {

// ---- Channel planes as TMA brings them ----
//
// A raw row is one row of the input in one channel, or some whole rows (Source::whole_rows), or a whole plane
// (Source::whole_planes), in kRawPitch elements. Behind it is the same raw row of the next channel, and behind all
// channels of a stage the next raw row. Elements of all input planes lie in it as in the input.

constexpr bool kRowBoxes = kSource == Source::whole_rows;

/// Raw rows of a channel in a stage.
__device__ __forceinline__ int all_raw_rows(const Geometry& geometry) {
    return geometry.images() * (kWholeRows ? kPlaneBoxes : geometry.raw_rows());
}

/// Whether a voxel of the staged plane lies in the input, where rows come whole: their halo does not come with them.
__device__ __forceinline__ bool in_whole_plane(const Voxel& voxel, int plane) {
    const int h = (voxel.row + kShiftMinH) * kInStrideH + plane_row(plane);
    const int w = (voxel.column + kShiftMinW) * kInStrideW + plane_column(plane);
    return (kRowBoxes || (h >= 0 && h < kInH)) && w >= 0 && w < kInW;
}

/// The position of an element of a raw row, counted from where the row begins in its staged plane, and whether it has
/// one. The element is number `element` of the eight from 8 · eight on; where `eight` is a constant, so is most of
/// this. `shift` is by how many elements the raw row begins before position 0.
struct RawElement {
    int position;
    bool exists;
    __device__ __forceinline__ RawElement(const Geometry& geometry, int eight, int element, int shift) {
        if constexpr (kDeinterleaves) {
            const int at = eight * 8 + element;
            const PlaneElement<kInStrideW> w(kInPlaneW, kWholeRows ? at % kInW - kShiftMinW * kInStrideW : at - shift);
            position = w.place * kInPlanePitch + w.position;
            exists = w.below(kPitch);
            if constexpr (kWholeRows) {
                const PlaneElement<kInStrideH> h(kInPlaneH, at / kInW - kShiftMinH * kInStrideH);
                position += h.place * (kInPlanesW * kInPlanePitch) + h.position * kRowPitch;
                exists = exists && h.below(kPlaneRows);
            }
        } else if constexpr (kWholeRows) {
            const int at = eight * 8 + element, w = at % kInW - kShiftMinW;
            const int h = at / kInW - (kRowBoxes ? 0 : kShiftMinH);
            position = h * kRowPitch + w;
            exists = h >= 0 && h < (kRowBoxes ? kBoxRows : kPlaneRows) && w >= 0 && w < kPitch;
        } else {
            position = eight * 8 + element - shift; // fewer than 8 to the left
            exists =
                (eight > 0 || position >= 0) && ((!kAnySize && eight * 8 + 7 < kPitch) || position < geometry.pitch());
        }
    }
};

/// The position at which a raw row begins, in the first of its input planes along W; -1 where no tap reads it.
__device__ __forceinline__ int raw_row_position(const Geometry& geometry, int row) {
    if constexpr (kRowBoxes) return row / kPlaneBoxes * kImagePitch + row % kPlaneBoxes * (kBoxRows * kRowPitch);
    if constexpr (kWholeRows) return row * kImagePitch;
    const int rows = geometry.raw_rows();
    const PlaneElement<kInStrideH> h(kInPlaneH, row % rows);
    if (h.place < 0) return -1;
    return row / rows * geometry.image_pitch() + h.place * (kInPlanesW * kInPlanePitch) + h.position * geometry.pitch();
}

/// Bit i: whether an element has a position in the i-th eight of a raw row. It is the same for all rows of a work item.
__device__ __forceinline__ uint64_t eights_with_position(const Geometry& geometry, int element, int shift) {
    const int count = (geometry.pitch() + 7 - element + shift) / 8;
    return ((uint64_t{1} << count) - 1) & ~static_cast<uint64_t>(element < shift);
}

/// Stores a lane's element of each eight that these matrices hold, where the bit of the eight is set.
template <int kLoads>
__device__ __forceinline__ void store_eights(const uint32_t (&words)[kLoads][4], uint32_t bits, uint32_t to) {
#pragma unroll
    for (int i = 0; i < 4 * kLoads; ++i) {
        const int eight = i / kSteps, plane = i % kSteps;
        if (bits >> eight & 1) ptx::store_shared(to + plane * kPlaneBytes + eight * (8 * 16), words[i / 4][i % 4]);
    }
}

/// Rearranges channel planes of 16 bits. Eight elements of eight channels are a matrix, whose columns are rows of core
/// matrices: ldmatrix transposes it. Each warp takes half of the channels, four matrices with a load, many loads before
/// the first store. With more than two warps, each pair of warps takes some of the raw rows, or some of the loads of
/// each where raw rows are planes.
__device__ __forceinline__ void rearrange_halves(const InputWalk& walk, uint32_t to, uint32_t raw, int thread) {
    // Where planes are de-interleaved, each store has a position of its own to compute: then few are written out.
    constexpr int kEightsAtOnce = 4 / kSteps, kLoadsAtOnce = kDeinterleaves ? 2 : 4;
    constexpr int kRowEights = kWholeRows ? (kBoxRows * kInW + 7) / 8 : (kRawColumns + 2 * 7) / 8;
    constexpr int kLoads = (kRowEights + kEightsAtOnce - 1) / kEightsAtOnce;
    const Geometry geometry(walk.args);
    const int row_eights = kAnySize ? (geometry.pitch() + 2 * 7) / 8 : kRowEights;
    const int loads = kAnySize ? (row_eights + kEightsAtOnce - 1) / kEightsAtOnce : kLoads;
    const int raw_pitch = geometry.raw_pitch(), pitch = geometry.pitch();
    constexpr int kPairs = kRearrangingWarps / 2;
    constexpr bool kSharesLoads = kPairs > 1 && kWholeRows;
    constexpr int kRowStep = kSharesLoads ? 1 : kPairs, kLoadStep = kLoadsAtOnce * (kSharesLoads ? kPairs : 1);
    constexpr int kUnrolled = kDeinterleaves || kSharesLoads || kAnySize ? 1 : kLoads;
    constexpr bool kComputesRows = kDeinterleaves || kPairs > 1; // where each row goes
    const int shift = raw_shift(walk.item()), lane = thread % 32, plane = thread / 32 % 2 * kSteps;
    const int pair = kPairs == 1 ? 0 : thread / 64;
    const int first = kSharesLoads ? 0 : pair, first_load = kSharesLoads ? pair * kLoadsAtOnce : 0;
    constexpr bool kByBits = kAnySize && !kDeinterleaves; // else each store finds out whether there is a position
    const uint64_t eights = kByBits ? eights_with_position(geometry, lane / 4, shift) : 0;
    uint32_t from = raw + ((plane * 8 + lane % (8 * kSteps)) * raw_pitch + lane / (8 * kSteps) * 8) * 2;
    from += first * (kStageChannels * raw_pitch * 2);
    to += plane * kPlaneBytes + lane % 4 * 4;
#pragma unroll 1
    for (int row = first; row < all_raw_rows(geometry); row += kRowStep) {
        // The last box of a plane may have rows that the plane does not need.
        const int end = kRowBoxes ? (kPlaneRows - row % kPlaneBoxes * kBoxRows) * kRowPitch : 0;
        const int begins = kComputesRows ? raw_row_position(geometry, row) : 0;
#pragma unroll kUnrolled
        for (int begin = first_load; begin < loads; begin += kLoadStep) {
            uint32_t words[kLoadsAtOnce][4];
#pragma unroll
            for (int i = 0; i < kLoadsAtOnce; ++i)
                if (begin + i < loads) ptx::load_matrices_transposed(words[i], from + (begin + i) * kEightsAtOnce * 16);
            if constexpr (kByBits) {
                const auto bits = static_cast<uint32_t>(eights >> (begin * kEightsAtOnce));
                const int position = begins + begin * (kEightsAtOnce * 8) + lane / 4 - shift;
                store_eights(words, begins >= 0 ? bits : 0, to + position * 16);
                continue;
            }
#pragma unroll
            for (int i = 0; i < 4 * kLoadsAtOnce; ++i) {
                const int eight = (begin + i / 4) * kEightsAtOnce + i % 4 / kSteps;
                if (eight >= row_eights) continue;
                const RawElement at(geometry, eight, lane / 4, shift);
                if (at.exists && (!kRowBoxes || at.position < end) && begins >= 0)
                    ptx::store_shared(to + i % kSteps * kPlaneBytes + (begins + at.position) * 16, words[i / 4][i % 4]);
            }
        }
        from += kRowStep * (kStageChannels * raw_pitch * 2);
        if constexpr (kComputesRows) continue;
        if constexpr (kRowBoxes) {
            constexpr int kBox = kBoxRows * kRowPitch;
            to += (row % kPlaneBoxes + 1 < kPlaneBoxes ? kBox : kImagePitch - (kPlaneBoxes - 1) * kBox) * 16;
        } else {
            to += (kWholeRows ? kImagePitch : pitch) * 16;
        }
    }
}

/// The row of a core matrix of fp32, four channels of a voxel, from channel planes without a stride.
__device__ __forceinline__ CoreRow row_from_planes(const Geometry& geometry, uint32_t raw, const Voxel& voxel, int core,
                                                   int shift) {
    int row = voxel.image * geometry.raw_rows() + voxel.row, column = voxel.column + shift;
    if constexpr (kWholeRows) {
        const int h = kRowBoxes ? voxel.row % kBoxRows : voxel.row + kShiftMinH;
        row = voxel.image * kPlaneBoxes + (kRowBoxes ? voxel.row / kBoxRows : 0);
        column = h * kInW + voxel.column + kShiftMinW;
    }
    const int raw_pitch = geometry.raw_pitch();
    const uint32_t from = raw + ((row * kStageChannels + core * 4) * raw_pitch + column) * 4;
    CoreRow found;
#pragma unroll
    for (int i = 0; i < 4; ++i) found.words[i] = ptx::load_shared(from + i * raw_pitch * 4);
    return found;
}

/// Rearranges channel planes of fp32, or splits core matrices of fp32 in parts. A lane takes a position of two or four
/// core matrices, all loads before the first store.
__device__ __forceinline__ void rearrange_floats(const InputWalk& walk, uint32_t to, uint32_t raw, int thread) {
    constexpr int kAtOnce = kSteps == 1 || kParts == 2 ? 2 : 4;
    const Geometry geometry(walk.args);
    const int shift = raw_shift(walk.item()), loaded = geometry.loaded();
#pragma unroll 1
    for (int i = thread; i < kStagedPlanes * loaded; i += kRearrangingThreads) {
        const StagedPosition staged(i, loaded);
        const Voxel voxel = voxel_at(geometry, staged.of_plane);
        if (kWholeRows && !in_whole_plane(voxel, staged.plane)) continue;
#pragma unroll 1
        for (int core = 0; core < 2 * kSteps; core += kAtOnce) {
            const int at = core * kPlaneBytes + staged.position(geometry) * 16;
            CoreRow rows[kAtOnce];
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) {
                if constexpr (kHasPlanes) {
                    rows[j] = row_from_planes(geometry, raw, voxel, core + j, shift);
                } else {
                    ptx::load_shared(rows[j].words, raw + at + j * kPlaneBytes);
                }
            }
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) store_core_row(to + at + j * kPlaneBytes, rows[j]);
        }
    }
}

/// The role of the warps that rearrange: fills all stages of input. `thread` counts through these warps.
__device__ __forceinline__ void rearrange(const TensorCoreArguments& args, const Pipeline& pipe, int thread) {
    int s = 0;
    ElementTable table(pipe, thread);
#pragma unroll 1
    for (InputWalk walk(args); walk.next(); ++s) {
        if constexpr (kHasRaw) pipe.raw.wait_full(s);
        pipe.in.wait_empty(s);
        const uint32_t to = pipe.in.at(s), raw = kHasRaw ? pipe.raw.at(s) : 0;
        if constexpr (kSource == Source::global) {
            stage_from_global(walk, to, thread);
        } else if constexpr (kRearrangesElements) {
            rearrange_elements(walk, table, to, raw, thread);
        } else if constexpr (kDeinterleavesHalves) {
            deinterleave_halves(walk, to, raw, thread);
        } else if constexpr (kHasPlanes && kWordChannels == 2) {
            rearrange_halves(walk, to, raw, thread);
        } else {
            rearrange_floats(walk, to, raw, thread);
        }
        if constexpr (kWgmma) ptx::fence_shared_async();
        __syncwarp();
        if (thread % 32 < kArrivals) {
            ptx::barrier_arrive(pipe.in.full(s));
            if constexpr (kHasRaw) ptx::barrier_arrive(pipe.raw.empty(s));
        }
    }
}

} // namespace
