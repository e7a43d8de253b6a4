#pragma once

// How two warps rearrange the input into core matrices: where TMA brings channel planes, where fp32 is to be split in
// parts, and where TMA cannot take the input at all.
#include "load/tma.cuh"
#include "schedule/positions.cuh"

namespace {

constexpr int kRearrangingThreads = kRearrangingWarps * 32;
constexpr int kLoaded = kImages * kPlaneRows * kPitch; // positions

// ---- Channel planes as TMA brings them ----
//
// A raw row is kRawPitch elements, and the raw rows of all channels of a stage lie side by side. A raw row is one row
// of a plane, or some whole rows (Source::whole_rows), or a whole plane (Source::whole_planes).

constexpr bool kRowBoxes = kSource == Source::whole_rows;
constexpr int kStageChannels = kSteps * kChannelStep;
constexpr int kRawRows = kImages * (kWholeRows ? kPlaneBoxes : kPlaneRows);

/// Whether a voxel of a tile is one of the input, where rows come whole: their halo does not come with them.
__device__ __forceinline__ bool in_whole_plane(const Voxel& voxel) {
    const int h = voxel.row + kShiftMinH, w = voxel.column + kShiftMinW;
    return (kRowBoxes || (h >= 0 && h < kInH)) && w >= 0 && w < kInW;
}

/// The position of an element of a raw row, counted from the row's first, or from the plane's; and whether it has one.
/// Elements come in eights. Where `eight` is a constant, so is most of this.
struct RawElement {
    int position;
    bool exists;
    __device__ __forceinline__ RawElement(int eight, int element, int shift) {
        if constexpr (kWholeRows) {
            const int at = eight * 8 + element, w = at % kInW - kShiftMinW;
            const int h = at / kInW - (kRowBoxes ? 0 : kShiftMinH);
            position = h * kRowPitch + w;
            exists = h >= 0 && h < (kRowBoxes ? kBoxRows : kPlaneRows) && w >= 0 && w < kPitch;
        } else {
            position = eight * 8 + element - shift; // fewer than 8 to the left
            exists = (eight > 0 || position >= 0) && (eight * 8 + 7 < kPitch || position < kPitch);
        }
    }
};

/// Planes of 16-bit elements. Eight elements of eight channels are a matrix, whose columns are rows of core matrices:
/// ldmatrix transposes it. Each warp takes half of the channels, four matrices with a load, many loads before the first
/// store.
__device__ __forceinline__ void rearrange_halves(const InputWalk& walk, uint32_t to, uint32_t raw, int thread) {
    static_assert(kRearrangingWarps == 2);
    constexpr int kEightsAtOnce = 4 / kSteps, kLoadsAtOnce = 4;
    constexpr int kRowEights = kWholeRows ? (kBoxRows * kInW + 7) / 8 : (kPitch + 2 * 7) / 8;
    constexpr int kLoads = (kRowEights + kEightsAtOnce - 1) / kEightsAtOnce;
    const int shift = raw_shift(walk.item()), lane = thread % 32, plane = thread / 32 * kSteps;
    uint32_t from = raw + ((plane * 8 + lane % (8 * kSteps)) * kRawPitch + lane / (8 * kSteps) * 8) * 2;
    to += plane * kPlaneBytes + lane % 4 * 4;
#pragma unroll 1
    for (int row = 0; row < kRawRows; ++row) {
        // The last box of a plane may have rows that the plane does not need.
        const int end = kRowBoxes ? (kPlaneRows - row % kPlaneBoxes * kBoxRows) * kRowPitch : 0;
#pragma unroll
        for (int begin = 0; begin < kLoads; begin += kLoadsAtOnce) {
            uint32_t words[kLoadsAtOnce][4];
#pragma unroll
            for (int i = 0; i < kLoadsAtOnce; ++i)
                if (begin + i < kLoads)
                    ptx::load_matrices_transposed(words[i], from + (begin + i) * kEightsAtOnce * 16);
#pragma unroll
            for (int i = 0; i < 4 * kLoadsAtOnce; ++i) {
                const int eight = (begin + i / 4) * kEightsAtOnce + i % 4 / kSteps;
                if (eight >= kRowEights) continue;
                const RawElement at(eight, lane / 4, shift);
                if (at.exists && (!kRowBoxes || at.position < end))
                    ptx::store_shared(to + i % kSteps * kPlaneBytes + at.position * 16, words[i / 4][i % 4]);
            }
        }
        from += kStageChannels * kRawPitch * 2;
        if constexpr (kRowBoxes) {
            constexpr int kBox = kBoxRows * kRowPitch;
            to += (row % kPlaneBoxes + 1 < kPlaneBoxes ? kBox : kImagePitch - (kPlaneBoxes - 1) * kBox) * 16;
        } else {
            to += (kWholeRows ? kImagePitch : kPitch) * 16;
        }
    }
}

/// One position of four fp32 channels.
__device__ __forceinline__ CoreRow row_from_planes(uint32_t raw, const Voxel& voxel, int core, int shift) {
    int row = voxel.image * kPlaneRows + voxel.row, column = voxel.column + shift;
    if constexpr (kWholeRows) {
        const int h = kRowBoxes ? voxel.row % kBoxRows : voxel.row + kShiftMinH;
        row = voxel.image * kPlaneBoxes + (kRowBoxes ? voxel.row / kBoxRows : 0);
        column = h * kInW + voxel.column + kShiftMinW;
    }
    const uint32_t from = raw + ((row * kStageChannels + core * 4) * kRawPitch + column) * 4;
    CoreRow found;
#pragma unroll
    for (int i = 0; i < 4; ++i) found.words[i] = ptx::load_shared(from + i * kRawPitch * 4);
    return found;
}

/// Stores a row of a core matrix: rounded to tf32, or its two parts where fp32 is split, or as it is.
__device__ __forceinline__ void store_core_row(uint32_t to, const CoreRow& row) {
    if constexpr (kParts == 2 || (kWordChannels == 1 && kSource == Source::global)) {
        store_parts(to, kPartBytes, row);
    } else {
        ptx::store_shared(to, row.words);
    }
}

/// Planes of fp32, or core matrices to split. A lane takes a position of two or four core matrices, all loads before
/// the first store.
__device__ __forceinline__ void rearrange_floats(const InputWalk& walk, uint32_t to, uint32_t raw, int thread) {
    constexpr int kAtOnce = kSteps == 1 || kParts == 2 ? 2 : 4;
    const int shift = raw_shift(walk.item());
#pragma unroll 1
    for (int position = thread; position < kLoaded; position += kRearrangingThreads) {
        const Voxel voxel = voxel_at(position);
        if (kWholeRows && !in_whole_plane(voxel)) continue;
#pragma unroll 1
        for (int core = 0; core < 2 * kSteps; core += kAtOnce) {
            const int at = core * kPlaneBytes + position * 16;
            CoreRow rows[kAtOnce];
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                if constexpr (kHasPlanes) {
                    rows[i] = row_from_planes(raw, voxel, core + i, shift);
                } else {
                    ptx::load_shared(rows[i].words, raw + at + i * kPlaneBytes);
                }
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) store_core_row(to + at + i * kPlaneBytes, rows[i]);
        }
    }
}

// ---- Global memory ----

/// The elements of one row of a core matrix, as words.
template <typename Load>
__device__ __forceinline__ CoreRow make_row(Load load_channel) {
    CoreRow row;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (kWordChannels == 1) {
            row.words[i] = load_channel(i);
        } else {
            row.words[i] = load_channel(2 * i) | load_channel(2 * i + 1) << 16;
        }
    }
    return row;
}

/// One position of the channels of a core matrix, element by element: for rows that TMA cannot take.
__device__ __forceinline__ CoreRow row_from_global(const InputWalk& walk, const Voxel& voxel, int core) {
    using Element = typename Unsigned<4 / kWordChannels>::Type;
    const TensorCoreArguments& args = walk.args;
    const int n = walk.item().n + voxel.image / kSlices, d = walk.slice() * kSlices + voxel.image % kSlices;
    const int h = walk.item().q_h + kShiftMinH + voxel.row, w = first_column(walk.item()) + voxel.column;
    const int channel = walk.chunk() * kSteps * kChannelStep + core * 4 * kWordChannels;
    const bool inside =
        voxel.image < kImages && n < args.batch && h >= 0 && h < args.in_extents.h && w >= 0 && w < args.in_extents.w;
    const int64_t area = static_cast<int64_t>(args.in_extents.h) * args.in_extents.w;
    const int64_t volume = area * args.in_extents.d * kSlices;
    const int64_t place = d * area + static_cast<int64_t>(h) * args.in_extents.w + w;
    constexpr int kChannels = kGroups * kInChannels;
    const int64_t first =
        kChannelsLast
            ? (n * volume + place) * kChannels + walk.item().group * kInChannels + channel
            : (static_cast<int64_t>(n) * kChannels + walk.item().group * kInChannels + channel) * volume + place;
    const int64_t stride = kChannelsLast ? 1 : volume;
    const Element* in = reinterpret_cast<const Element*>(args.in) + first;
    return make_row([&](int c) -> uint32_t {
        return inside && channel + c < kInChannels ? static_cast<uint32_t>(__ldg(in + c * stride)) : 0u;
    });
}

/// Small planes have fewer positions than there are lanes, but several core matrices.
__device__ __forceinline__ void rearrange_global(const InputWalk& walk, uint32_t to, int thread) {
#pragma unroll 1
    for (int i = thread; i < kLoaded * 2 * kSteps; i += kRearrangingThreads) {
        const int position = i % kLoaded, core = i / kLoaded;
        store_core_row(to + core * kPlaneBytes + position * 16, row_from_global(walk, voxel_at(position), core));
    }
}

__device__ __forceinline__ void rearrange(const TensorCoreArguments& args, const Pipeline& pipe, int thread) {
    int s = 0;
#pragma unroll 1
    for (InputWalk walk(args); walk.next(); ++s) {
        if constexpr (kHasRaw) pipe.raw.wait_full(s);
        pipe.in.wait_empty(s);
        const uint32_t to = pipe.in.at(s), raw = kHasRaw ? pipe.raw.at(s) : 0;
        if constexpr (kSource == Source::global) {
            rearrange_global(walk, to, thread);
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
