#pragma once

// The family `sweep`: what its kernel is launched with, and where voxels lie in its shared memory. Host and device
// compile this file.
#include "shared/voxel_extents.cuh"

namespace tconv3d::cuda {

/// Where a slice of a tile lies in shared memory, of both tensors. A *cell* is 16 bytes of voxels, neighbours along W
/// in one channel: half a k step. A *chunk* is 16 bytes of channels of one voxel. Either tensor lies *by channels*,
/// each of which has its voxels side by side, or *by chunks*, as channels_last_3d lies in memory.
///
/// The fixed tensor in 16 bits, with voxels v and channels c:
///
///     by channels   cell 0    c0 v0–7 | c1 v0–7 | c2 v0–7 | …     The cells of eight neighbouring channels are a core
///                   cell 1    c0 v8–15 | c1 v8–15 | …             matrix of a K-major operand.
///     by chunks     plane 0   v0 c0–7 | v1 c0–7 | v2 c0–7 | …     The chunks of eight neighbouring voxels are a core
///                   plane 1   v0 c8–15 | v1 c8–15 | …             matrix with columns side by side: wgmma transposes.
///
/// The moved tensor lies in planes, one for each channel or chunk, of the met_h() rows that the tile meets. Voxel x of
/// the fixed tensor meets voxel stride · x + tap · dilation of a row. So a row is sorted by phases: phase p has the
/// voxels p, p + stride, p + 2 · stride, …, and neighbours in it are what neighbouring voxels of the fixed tensor meet
/// through one tap. With stride 2 along W:
///
///     phase 0: 0 2 4 6 …   its second copy: 2 4 6 8 …   phase 1: 1 3 5 7 …   its second copy: 3 5 7 9 …
///
/// By channels, a word of 16-bit elements has two neighbours of a phase. Where a tap begins in the middle of a word,
/// the second copy, which begins one voxel further on, has it at the beginning of one. So a tap is a constant number of
/// bytes from where the plane begins (tap_byte).
struct SweepPlane {
    int tile_h;
    int row_cells; ///< of the fixed tensor: 1, or an even number
    int stride_h, stride_w;
    int dilation_h, dilation_w;
    int taps_h, taps_w; ///< of a block
    int element_bytes;
    bool moved_chunks; ///< whether the moved tensor lies by chunks
    bool fixed_chunks; ///< whether the fixed tensor does, else by cells of a channel

    static constexpr int kBarrierBytes = 1024; ///< of shared memory, before all stages and slots

    constexpr int cell_voxels() const { return 16 / element_bytes; }
    constexpr int chunk_channels() const { return 16 / element_bytes; }
    constexpr int word_voxels() const { return 4 / element_bytes; }
    constexpr int tile_w() const { return row_cells * cell_voxels(); }

    // The fixed tensor. From a cell of all channels to the next one, or by chunks from a plane to the next one, there
    // are 16 bytes an odd number of times, so that threads which store neighbours use different banks.
    constexpr int cells() const { return tile_h * row_cells; }
    constexpr int steps() const { return cells() / 2; }
    constexpr int cell_pitch(int channels) const { return fixed_chunks ? 16 * cell_voxels() : (channels | 1) * 16; }
    constexpr int fixed_plane_bytes() const { return cells() * 16 * cell_voxels() + 16; }
    constexpr int fixed_bytes(int channels) const {
        return fixed_chunks ? channels / chunk_channels() * fixed_plane_bytes() : cells() * cell_pitch(channels);
    }

    // The moved tensor. Rows and columns of it that a tile meets through a block of taps, then where they lie.
    constexpr int met_h() const { return stride_h * (tile_h - 1) + dilation_h * (taps_h - 1) + 1; }
    constexpr int met_w() const { return stride_w * (tile_w() - 1) + dilation_w * (taps_w - 1) + 1; }
    constexpr int phases() const { return stride_w; } // each has a voxel, since tiles have several columns
    constexpr int phase_columns() const { return (met_w() + phases() - 1) / phases(); }
    constexpr int copies() const {
        for (int tap = 0; tap < taps_w; ++tap)
            if (element_bytes == 2 && !moved_chunks && tap * dilation_w / phases() % 2 == 1) return 2;
        return 1;
    }
    constexpr int phase_cells() const { return (phase_columns() + cell_voxels() - 1) / cell_voxels(); }
    constexpr int copy_bytes() const { return phase_cells() * 16; }
    constexpr int phase_bytes() const { return moved_chunks ? phase_columns() * 16 : copies() * copy_bytes(); }
    constexpr int row_bytes() const { return phases() * phase_bytes(); }
    /// Bytes from a plane to the next one, such that the lanes of a warp load from different banks. They load four
    /// words of each of eight channels, whose planes are 16 bytes an odd number of times apart; or in fp32 by chunks
    /// four voxels of two chunks, whose planes are 64 bytes apart, modulo 128.
    constexpr int plane_bytes() const {
        const int sixteens = met_h() * row_bytes() / 16;
        return (moved_chunks && element_bytes == 4 ? (sixteens + 3) / 8 * 8 + 4 : sixteens | 1) * 16;
    }
    constexpr int slot_bytes(int channels) const {
        return (moved_chunks ? channels / chunk_channels() : channels) * plane_bytes();
    }

    /// The byte of a slot at which a channel begins, and the byte of a plane at which a tap of the block does.
    constexpr int channel_byte(int channel) const {
        return moved_chunks ? channel / chunk_channels() * plane_bytes() + channel % chunk_channels() * element_bytes
                            : channel * plane_bytes();
    }
    constexpr int tap_byte(int tap_h, int tap_w) const {
        const int at = tap_w * dilation_w, column = at / phases();
        const int copy = moved_chunks || column % word_voxels() == 0 ? 0 : 1;
        return tap_h * dilation_h * row_bytes() + at % phases() * phase_bytes() + copy * copy_bytes() +
               (moved_chunks ? column * 16 : column / word_voxels() * 4);
    }
    /// From the voxels of a cell of the fixed tensor to those of the next one in its row.
    constexpr int next_cell_bytes() const { return moved_chunks ? cell_voxels() * 16 : 16; }
};

/// What a producer moves at once of a row of 16-bit elements in NCDHW: neighbours in memory that make words() words of
/// each phase, and of each of its copies.
struct SweepPiece {
    int phases, copies;

    /// With more phases each word is moved by itself.
    static constexpr int kMostPhases = 4;
    /// Words of each phase: so many that the pieces of neighbouring threads begin 16 bytes apart, or nearly so.
    constexpr int words() const { return phases == 1 ? 4 : phases == 2 ? 2 : 1; }
    constexpr int elements() const { return (2 * words() - 1 + copies) * phases; }
    constexpr int pairs() const { return (elements() + 1) / 2; }
    /// Words of memory that are loaded for a piece, which begins with element `begin` of 16 aligned bytes: vectors of
    /// 16 bytes, and a single word where that is all that is missing. If `begin` is -1, pieces begin with any element,
    /// and are loaded in single words.
    constexpr int loaded_words(int begin) const {
        const int words = begin < 0 ? pairs() + 1 : (begin + elements() + 1) / 2;
        return begin < 0 || words % 4 == 1 ? words : (words + 3) / 4 * 4;
    }
    constexpr int loads(int begin) const {
        const int words = loaded_words(begin);
        return begin < 0 ? words : (words + 3) / 4;
    }
};

/// The slices of the moved tensor that a slice of the fixed one meets through the taps of a block. Only every step()-th
/// slice is met at all: all counts below are of these.
struct SweepDepth {
    int stride, dilation;
    int taps; ///< of a block

    constexpr int step() const {
        int a = stride, b = dilation;
        while (b != 0) {
            const int rest = a % b;
            a = b;
            b = rest;
        }
        return a;
    }
    /// The slice that a tap of the block meets, counted from the first tap's.
    constexpr int tap_slice(int tap) const { return tap * (dilation / step()); }
    constexpr int met() const { return tap_slice(taps - 1) + 1; }
    /// Slices that the next slice of the fixed tensor meets and this one does not.
    constexpr int fresh() const { return stride / step() < met() ? stride / step() : met(); }
    /// Slots of the ring: for all that one slice meets, and for what is fresh of each slice that is loaded ahead.
    constexpr int slots(int stages) const { return met() + fresh() * (stages - 1); }
};

/// Threads of a CTA by role. A consumer and a producer share the registers that two threads begin with.
struct SweepThreads {
    static constexpr int kConsumers = 256, kProducers = 256;
    static constexpr int kRegisters = 256, kMostConsumerRegisters = 208;
};

struct SweepArguments {
    const void* fixed;
    const void* moved;
    void* sums; ///< grad_weight, or the sums of all splits in fp32
    VoxelExtents fixed_extents;
    VoxelExtents moved_extents;
    int64_t images;
    int64_t tiles_h, tiles_w; ///< of a slice
    int64_t slices;           ///< of all tiles of all images
    int64_t splits;
};

} // namespace tconv3d::cuda
