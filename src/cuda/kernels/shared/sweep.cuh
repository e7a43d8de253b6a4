#pragma once

// The family `sweep`: what its kernel is launched with, and where voxels lie in its shared memory. Host and device
// compile this file.
#include "shared/voxel_extents.cuh"

namespace tconv3d::cuda {

/// The plane of a tile in shared memory, in words of 4 bytes. Voxels of a row come in cells of 16 bytes.
///
/// A row of the moved tensor has its voxels `phases` apart side by side: those that neighbouring voxels of the fixed
/// tensor meet through one tap. A word of 16-bit elements is two neighbours, so that a tap may begin in the middle of a
/// word: then there is a second copy of each row, one voxel further on.
struct SweepPlane {
    int tile_h;
    int row_cells; ///< of the fixed tensor: 1, or an even number
    int stride_h, stride_w;
    int dilation_h, dilation_w;
    int taps_h, taps_w; ///< of a block
    int element_bytes;

    constexpr int cell_voxels() const { return 16 / element_bytes; }
    constexpr int word_voxels() const { return 4 / element_bytes; }
    constexpr int tile_w() const { return row_cells * cell_voxels(); }

    static constexpr int kBarrierBytes = 1024; ///< of shared memory, before all stages and slots

    // The fixed tensor: cells of a channel, in k steps of two.
    constexpr int cells() const { return tile_h * row_cells; }
    constexpr int steps() const { return cells() / 2; }
    /// From a cell to the next one of its channel: an odd number of cells, so that threads which store neighbours use
    /// different banks. Between them are those of the other channels.
    constexpr int cell_pitch(int channels) const { return (channels | 1) * 16; }
    constexpr int fixed_bytes(int channels) const { return cells() * cell_pitch(channels); }

    // The moved tensor.
    constexpr int met_h() const { return stride_h * (tile_h - 1) + dilation_h * (taps_h - 1) + 1; }
    constexpr int met_w() const { return stride_w * (tile_w() - 1) + dilation_w * (taps_w - 1) + 1; }
    constexpr int phases() const { return stride_w < met_w() ? stride_w : met_w(); }
    constexpr int copies() const {
        for (int tap = 0; tap < taps_w; ++tap)
            if (element_bytes == 2 && tap * dilation_w / phases() % 2 == 1) return 2;
        return 1;
    }
    constexpr int phase_cells() const {
        return ((met_w() + phases() - 1) / phases() + cell_voxels() - 1) / cell_voxels();
    }
    constexpr int phase_words() const { return copies() * phase_cells() * 4; }
    constexpr int row_words() const { return phases() * phase_words(); }
    /// An odd number of cells: eight channels at four words each are then in different banks.
    constexpr int channel_words() const { return (met_h() * row_words() / 4 | 1) * 4; }

    constexpr int slot_bytes(int channels) const { return channels * channel_words() * 4; }

    /// Where a tap of a block begins in a channel.
    constexpr int tap_word(int tap_h, int tap_w) const {
        const int at = tap_w * dilation_w, column = at / phases();
        const int copy = column % word_voxels() == 0 ? 0 : 1;
        return tap_h * dilation_h * row_words() + at % phases() * phase_words() + copy * phase_cells() * 4 +
               column / word_voxels();
    }
};

/// The slices of the moved tensor that a slice of the fixed one meets through the taps of a block. Only every
/// `step`-th slice is met at all; they are counted in these.
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
    constexpr int tap_slice(int tap) const { return tap * (dilation / step()); }
    constexpr int met() const { return tap_slice(taps - 1) + 1; }
    /// Slices that the next slice of the fixed tensor meets and this one does not.
    constexpr int fresh() const { return stride / step() < met() ? stride / step() : met(); }
    constexpr int slots(int stages) const { return met() + fresh() * (stages - 1); }
};

/// Threads of a CTA by role, and registers of each: a multiprocessor has 512 for each lane of its four schedulers.
struct SweepThreads {
    static constexpr int kConsumers = 256, kConsumerRegisters = 208;
    static constexpr int kProducers = 256, kProducerRegisters = 48;
};

struct SweepArguments {
    const void* fixed;
    const void* moved;
    void* sums; ///< grad_weight, or the sums of all splits in fp32
    VoxelExtents fixed_extents;
    VoxelExtents moved_extents;
    int64_t tiles_h, tiles_w; ///< of a slice
    int64_t slices;           ///< of all tiles of all images
    int64_t splits;
};

} // namespace tconv3d::cuda
