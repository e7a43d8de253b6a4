#pragma once

// Source::global: warps load positions from global memory, where TMA cannot take the input. A lane has several rows of
// core matrices under way before it stores the first, because it waits long for each.
#include "load/core_rows.cuh"
#include "load/tma.cuh"
#include "schedule/positions.cuh"

namespace {

using InputElement = typename Unsigned<4 / kWordChannels>::Type;
constexpr int kInputBytes = sizeof(InputElement);

/// Bytes of a row of a core matrix that come in one load. In channels-last its channels are neighbours, and begin at a
/// multiple of the largest power of two that divides a group's channels.
constexpr int row_load_bytes() {
    if (!kChannelsLast) return kInputBytes;
    int bytes = 16;
    while (kInChannels * kInputBytes % bytes != 0) bytes /= 2;
    return bytes;
}
constexpr int kRowLoadBytes = row_load_bytes();
constexpr int kRowLoads = 16 / kRowLoadBytes;
constexpr int kLoadChannels = kRowLoadBytes / kInputBytes;

/// What a load brings. Elements of 16 bits are not put together before all of them have been asked for.
using LoadWord = typename Unsigned<kRowLoadBytes == 2 ? 2 : 4>::Type;
using RowLoad = LoadWord[kRowLoadBytes / sizeof(LoadWord)];

/// Rows that a lane asks for before it stores the first: fewer where a row takes eight loads, or where producers have
/// few registers to hold them.
constexpr int kRowsAtOnce = kRowLoads <= 4 && (!kWgmma || kProducerRegisters >= 80) ? 4 : 2;

/// The channels of a row of a core matrix, of one voxel.
struct GlobalRow {
    const InputElement* first;
    int exist; // channels from the first one on; none outside of the input

    __device__ __forceinline__ GlobalRow(const InputWalk& walk, const Voxel& voxel, int plane, int core) {
        const TensorCoreArguments& args = walk.args;
        const int n = walk.item().n + voxel.image / kSlices;
        const int d = depth_of(walk.slice()) * kSlices + voxel.image % kSlices;
        const int h = first_row(walk.item()) + voxel.row * kInStrideH + plane_row(plane);
        const int w = first_column(walk.item()) + voxel.column * kInStrideW + plane_column(plane);
        const int channel = walk.chunk() * kStageChannels + core * (4 * kWordChannels);
        const bool inside = voxel.image < Geometry(args).images() && n < args.batch && h >= 0 &&
                            h < args.in_extents.h && w >= 0 && w < args.in_extents.w;
        const int64_t place = d * area(args) + static_cast<int64_t>(h) * args.in_extents.w + w;
        constexpr int kChannels = kGroups * kInChannels;
        const int of_group = walk.item().group * kInChannels + channel;
        const int64_t index = kChannelsLast ? (n * volume(args) + place) * kChannels + of_group
                                            : (static_cast<int64_t>(n) * kChannels + of_group) * volume(args) + place;
        first = reinterpret_cast<const InputElement*>(args.in) + index;
        exist = inside ? kInChannels - channel : 0;
    }

    __device__ __forceinline__ static int64_t area(const TensorCoreArguments& args) {
        return static_cast<int64_t>(args.in_extents.h) * args.in_extents.w;
    }
    __device__ __forceinline__ static int64_t volume(const TensorCoreArguments& args) {
        return area(args) * args.in_extents.d * kSlices;
    }

    /// Asks for all channels that exist; the others are zeros.
    __device__ __forceinline__ void load(const TensorCoreArguments& args, RowLoad (&loads)[kRowLoads]) const {
        const int64_t step = kLoadChannels * (kChannelsLast ? 1 : volume(args));
#pragma unroll
        for (int i = 0; i < kRowLoads; ++i)
            ptx::load_readonly_if<0>(i * kLoadChannels < exist, first + i * step, loads[i]);
    }
};

/// The row that these loads have brought. Elements of 16 bits are put together here, where all loads have been asked
/// for: if they were copied as they lie in `loads`, the compiler would put them together as they come, and wait for
/// each.
__device__ __forceinline__ CoreRow row_of(const RowLoad (&loads)[kRowLoads]) {
    CoreRow row;
    if constexpr (kRowLoadBytes == 2) {
#pragma unroll
        for (int i = 0; i < 4; ++i) row.words[i] = loads[2 * i][0] | static_cast<uint32_t>(loads[2 * i + 1][0]) << 16;
    } else {
        memcpy(&row, loads, sizeof row);
    }
    return row;
}

/// Fills a stage: the rows of the first core matrices of all positions, then those of the next. Small planes have fewer
/// positions than there are lanes, but several core matrices.
__device__ __forceinline__ void stage_from_global(const InputWalk& walk, uint32_t to, int thread) {
    const Geometry geometry(walk.args);
    const int loaded = geometry.loaded(), positions = loaded * kStagedPlanes;
    int core = 0, position = thread;
#pragma unroll 1
    while (true) {
        RowLoad loads[kRowsAtOnce][kRowLoads] = {};
        int places[kRowsAtOnce]; // where they go, -1 behind the last one
#pragma unroll
        for (int i = 0; i < kRowsAtOnce; ++i, position += kRearrangingThreads) {
            for (; position >= positions; position -= positions) ++core;
            const StagedPosition staged(position, loaded);
            const bool exists = core < 2 * kSteps;
            places[i] = exists ? core * kPlaneBytes + staged.position(geometry) * 16 : -1;
            const Voxel voxel = voxel_at(geometry, staged.of_plane);
            if (exists) GlobalRow(walk, voxel, staged.plane, core).load(walk.args, loads[i]);
        }
#pragma unroll
        for (int i = 0; i < kRowsAtOnce; ++i)
            if (places[i] >= 0) store_core_row(to + places[i], row_of(loads[i]));
        if (core >= 2 * kSteps) return;
    }
}

} // namespace
