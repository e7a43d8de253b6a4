#pragma once

// How two warps arrange src into cores: where the copy engine brings planes of a channel, where fp32 is to be split,
// and where it cannot take src at all.
#include "base/storage.cuh"
#include "load/copy.cuh"

namespace {

constexpr int kArrangingThreads = kArrangingWarps * 32;
constexpr int kLoaded = kImages * kPlaneRows * kPitch; // positions

// ---- Planes as the copy engine brings them ----
//
// Rows of kRawPitch elements, those of all channels of a stage side by side; where planes come whole, such a row is a
// plane, and where their rows are whole, some of these.

constexpr bool kRowsInRuns = kSource == kSourceRuns, kWhole = kSource == kSourceWhole || kRowsInRuns;
constexpr int kStageChannels = kSteps * kChannelStep;
constexpr int kRawRows = kImages * (kWhole ? kRunBoxes : kPlaneRows);

/// Whether a voxel of a tile is one of src, where rows come whole: their halo does not come with them.
__device__ __forceinline__ bool in_whole_plane(const Voxel& voxel) {
    const int h = voxel.row + kDeltaMinH, w = voxel.column + kDeltaMinW;
    return (kRowsInRuns || (h >= 0 && h < kWholeH)) && w >= 0 && w < kWholeW;
}

/// The position of an element of a row, counted from the row's first, or from the plane's; and whether it has one.
/// Where `run` is a constant, so is most of this.
struct RawElement {
    int position;
    bool exists;
    __device__ __forceinline__ RawElement(int run, int element, int shift) {
        if constexpr (kWhole) {
            const int at = run * 8 + element, w = at % kWholeW - kDeltaMinW;
            const int h = at / kWholeW - (kRowsInRuns ? 0 : kDeltaMinH);
            position = h * kRowPitch + w;
            exists = h >= 0 && h < (kRowsInRuns ? kRunRows : kPlaneRows) && w >= 0 && w < kPitch;
        } else {
            position = run * 8 + element - shift; // fewer than 8 to the left
            exists = (run > 0 || position >= 0) && (run * 8 + 7 < kPitch || position < kPitch);
        }
    }
};

/// Planes of 16-bit elements. Runs of 8 elements of 8 channels are a matrix, whose columns are rows of cores: it is
/// turned around while it is loaded. Each warp takes half of the channels, four matrices with a load, many loads before
/// the first store.
__device__ __forceinline__ void arrange_halves(const SourceWalk& walk, uint32_t to, uint32_t raw, int thread) {
    static_assert(kArrangingWarps == 2);
    constexpr int kRunsAtOnce = 4 / kSteps, kLoadsAtOnce = 4;
    constexpr int kRowRuns = kWhole ? (kRunRows * kWholeW + 7) / 8 : (kPitch + 2 * 7) / 8;
    constexpr int kLoads = (kRowRuns + kRunsAtOnce - 1) / kRunsAtOnce;
    const int shift = raw_shift(walk.item()), lane = thread % 32, plane = thread / 32 * kSteps;
    uint32_t from = raw + ((plane * 8 + lane % (8 * kSteps)) * kRawPitch + lane / (8 * kSteps) * 8) * 2;
    to += plane * kPlaneBytes + lane % 4 * 4;
#pragma unroll 1
    for (int row = 0; row < kRawRows; ++row) {
        // The last run of a plane may have rows that it does not need.
        const int end = kRowsInRuns ? (kPlaneRows - row % kRunBoxes * kRunRows) * kRowPitch : 0;
#pragma unroll
        for (int begin = 0; begin < kLoads; begin += kLoadsAtOnce) {
            uint32_t words[kLoadsAtOnce][4];
#pragma unroll
            for (int i = 0; i < kLoadsAtOnce; ++i)
                if (begin + i < kLoads) ptx::load_matrices_turned(words[i], from + (begin + i) * kRunsAtOnce * 16);
#pragma unroll
            for (int i = 0; i < 4 * kLoadsAtOnce; ++i) {
                const int run = (begin + i / 4) * kRunsAtOnce + i % 4 / kSteps;
                if (run >= kRowRuns) continue;
                const RawElement at(run, lane / 4, shift);
                if (at.exists && (!kRowsInRuns || at.position < end))
                    ptx::store_shared(to + i % kSteps * kPlaneBytes + at.position * 16, words[i / 4][i % 4]);
            }
        }
        from += kStageChannels * kRawPitch * 2;
        if constexpr (kRowsInRuns) {
            constexpr int kRun = kRunRows * kRowPitch;
            to += (row % kRunBoxes + 1 < kRunBoxes ? kRun : kImagePitch - (kRunBoxes - 1) * kRun) * 16;
        } else {
            to += (kWhole ? kImagePitch : kPitch) * 16;
        }
    }
}

/// One position of a group of fp32 channels.
__device__ __forceinline__ Core core_from_plane(uint32_t raw, const Voxel& voxel, int group, int shift) {
    int row = voxel.image * kPlaneRows + voxel.row, column = voxel.column + shift;
    if constexpr (kWhole) {
        const int h = kRowsInRuns ? voxel.row % kRunRows : voxel.row + kDeltaMinH;
        row = voxel.image * kRunBoxes + (kRowsInRuns ? voxel.row / kRunRows : 0);
        column = h * kWholeW + voxel.column + kDeltaMinW;
    }
    const uint32_t from = raw + ((row * kStageChannels + group * 4) * kRawPitch + column) * 4;
    Core core;
#pragma unroll
    for (int i = 0; i < 4; ++i) core.words[i] = ptx::load_shared(from + i * kRawPitch * 4);
    return core;
}

/// Stores one core row: rounded to tf32, or its two parts where fp32 is split, or as it is.
__device__ __forceinline__ void put_core(uint32_t to, const Core& core) {
    if constexpr (kParts == 2 || (kWordChannels == 1 && kSource == kSourceGlobal)) {
        put_parts(to, kPartBytes, core);
    } else {
        ptx::store_shared(to, core.words);
    }
}

/// Planes of fp32, or cores to split. A lane takes a position of two or four groups, all loads before the first store.
__device__ __forceinline__ void arrange_cores(const SourceWalk& walk, uint32_t to, uint32_t raw, int thread) {
    constexpr int kAtOnce = kSteps == 1 || kParts == 2 ? 2 : 4;
    const int shift = raw_shift(walk.item());
#pragma unroll 1
    for (int position = thread; position < kLoaded; position += kArrangingThreads) {
        const Voxel voxel = voxel_at(position);
        if (kWhole && !in_whole_plane(voxel)) continue;
#pragma unroll 1
        for (int group = 0; group < 2 * kSteps; group += kAtOnce) {
            const int place = group * kPlaneBytes + position * 16;
            Core cores[kAtOnce];
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                if constexpr (kHasPlanes) {
                    cores[i] = core_from_plane(raw, voxel, group + i, shift);
                } else {
                    ptx::load_shared(cores[i].words, raw + place + i * kPlaneBytes);
                }
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) put_core(to + place + i * kPlaneBytes, cores[i]);
        }
    }
}

// ---- Src as it lies ----

/// The elements of one core row, as words.
template <typename Load>
__device__ __forceinline__ Core gather_core(Load load_channel) {
    Core core;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (kWordChannels == 1) {
            core.words[i] = load_channel(i);
        } else {
            core.words[i] = load_channel(2 * i) | load_channel(2 * i + 1) << 16;
        }
    }
    return core;
}

/// src as it lies, one element at a time: rows that the copy engine cannot take.
__device__ __forceinline__ Core core_from_src(const SourceWalk& walk, const Voxel& voxel, int group) {
    using Element = typename Unsigned<4 / kWordChannels>::Type;
    const StreamArgs& args = walk.args;
    const int n = walk.item().n + voxel.image / kSlices, d = walk.slice() * kSlices + voxel.image % kSlices;
    const int h = walk.item().q_h + kDeltaMinH + voxel.row, w = first_column(walk.item()) + voxel.column;
    const int channel = walk.chunk() * kSteps * kChannelStep + group * 4 * kWordChannels;
    const bool inside = voxel.image < kImages && n < args.batch && h >= 0 && h < args.src_h && w >= 0 && w < args.src_w;
    const int64_t area = static_cast<int64_t>(args.src_h) * args.src_w, volume = area * args.depth * kSlices;
    const int64_t place = d * area + static_cast<int64_t>(h) * args.src_w + w;
    constexpr int kChannels = kGroups * kCi;
    const int64_t first =
        kChannelsLast ? (n * volume + place) * kChannels + walk.item().group * kCi + channel
                      : (static_cast<int64_t>(n) * kChannels + walk.item().group * kCi + channel) * volume + place;
    const int64_t stride = kChannelsLast ? 1 : volume;
    const Element* src = reinterpret_cast<const Element*>(args.src) + first;
    return gather_core([&](int c) -> uint32_t {
        return inside && channel + c < kCi ? static_cast<uint32_t>(__ldg(src + c * stride)) : 0u;
    });
}

/// Src as it lies: small planes have fewer positions than there are lanes, but several groups.
__device__ __forceinline__ void arrange_src(const SourceWalk& walk, uint32_t to, int thread) {
#pragma unroll 1
    for (int i = thread; i < kLoaded * 2 * kSteps; i += kArrangingThreads) {
        const int position = i % kLoaded, group = i / kLoaded;
        put_core(to + group * kPlaneBytes + position * 16, core_from_src(walk, voxel_at(position), group));
    }
}

__device__ __forceinline__ void arrange(const StreamArgs& args, const Pipeline& pipe, int thread) {
    int s = 0;
#pragma unroll 1
    for (SourceWalk walk(args); walk.next(); ++s) {
        if constexpr (kHasRaw) pipe.raw.wait_filled(s);
        pipe.src.wait_freed(s);
        const uint32_t to = pipe.src.at(s), raw = kHasRaw ? pipe.raw.at(s) : 0;
        if constexpr (kSource == kSourceGlobal) {
            arrange_src(walk, to, thread);
        } else if constexpr (kHasPlanes && kWordChannels == 2) {
            arrange_halves(walk, to, raw, thread);
        } else {
            arrange_cores(walk, to, raw, thread);
        }
        if constexpr (kWgmma) ptx::fence_shared_async();
        __syncwarp();
        if (thread % 32 < kArrivals) {
            ptx::barrier_arrive(pipe.src.filled(s));
            if constexpr (kHasRaw) ptx::barrier_arrive(pipe.raw.freed(s));
        }
    }
}

} // namespace
