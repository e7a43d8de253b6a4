#pragma once

// How producers load a slice of the fixed tensor into a stage: the rows `h` to `h + kTileH` and the columns from `w` on
// of the slice `src`, to the byte `to` of shared memory. SweepPlane draws what a stage looks like.
#include "sweep/tensor.cuh"

namespace {

/// By chunks, from channels_last_3d. A strip is a chunk of a column, in all rows.
__device__ __forceinline__ void load_fixed_chunks(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kChunks = chunks(kTileFixedChannels), kStrips = kChunks * kPlane.tile_w();
    for_each_strip<kStrips>(thread, [&](int number, int first) {
        const int chunk = number % kChunks, at_w = number / kChunks, channel = chunk * kPlane.chunk_channels();
        const int column = w + at_w;
        const Strip strip = {src.voxel(h, column) + channel,
                             src.tensor.row_bytes(),
                             column < src.tensor.w,
                             {0, channel < src.channels ? src.tensor.h - h : 0},
                             to + chunk * kPlane.fixed_plane_bytes() + at_w * 16};
        copy_strip<16, Accesses<kTileH, kSharers<kStrips>, kPlane.tile_w() * 16, false>>(strip, first);
    });
}

/// By channels, from channels_last_3d. A strip is a cell of a channel, in all rows.
__device__ __forceinline__ void load_fixed_channels(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kStrips = kTileFixedChannels * kRowCells;
    for_each_strip<kStrips>(thread, [&](int number, int first) {
        const int channel = number % kTileFixedChannels, cell = number / kTileFixedChannels;
        const int column = w + cell * kCellVoxels;
        const Strip strip = {src.voxel(h, column) + channel,
                             src.tensor.row_bytes(),
                             valid_columns<kCellVoxels>(column, 1, src.tensor.w),
                             {0, channel < src.channels ? src.tensor.h - h : 0},
                             to + cell * kCellPitch + channel * 16};
        move_strip<StridedCell<kCellVoxels, 1, FixedSlice::kVoxelStep>,
                   Accesses<kTileH, kSharers<kStrips>, kRowCells * kCellPitch, false>>(strip, first);
    });
}

/// By channels, from NCDHW. A strip is a cell of a row, in all channels.
__device__ __forceinline__ void load_fixed_cells(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kStrips = kPlane.cells();
    using Of = Accesses<kTileFixedChannels, kSharers<kStrips>, 16, FixedSlice::kExact>;
    for_each_strip<kStrips>(thread, [&](int number, int first) {
        const int row = h + number / kRowCells, column = w + number % kRowCells * kCellVoxels;
        const Strip strip = {src.voxel(row, column),
                             src.tensor.channel_bytes(),
                             valid_columns<kCellVoxels>(column, 1, src.tensor.w),
                             {0, row < src.tensor.h ? src.channels : 0},
                             to + number * kCellPitch};
        if constexpr (kFixedCopied) {
            copy_strip<16, Of>(strip, first);
        } else if constexpr (kFixedAligned) {
            move_strip<AlignedCell, Of>(strip, first);
        } else if constexpr (kElementBytes == 2) {
            move_pieces<1, 1, -1, Of>(src, strip, first);
        } else {
            move_strip<StridedCell<kCellVoxels, 1, 1>, Of>(strip, first);
        }
    });
}

__device__ __forceinline__ void load_fixed(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    if constexpr (kFixedChunks) {
        load_fixed_chunks(src, h, w, to, thread);
    } else if constexpr (kChannelsLast) {
        load_fixed_channels(src, h, w, to, thread);
    } else {
        load_fixed_cells(src, h, w, to, thread);
    }
}

} // namespace
