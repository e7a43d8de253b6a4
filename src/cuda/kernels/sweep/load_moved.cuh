#pragma once

// How producers load slices of the moved tensor into their slots. Each of the structs below is a way to divide a slice
// into strips. Its move() takes a thread's accesses of strip `number`, from access `first` on: of the slice `src`, from
// row `h` and column `w` on, which may lie outside of the tensor, to the slot that begins at the byte `to` of shared
// memory. SweepPlane draws what a slot looks like.
#include "sweep/tensor.cuh"

namespace {

/// Threads that share a strip. All slices that come with one of the fixed tensor are loaded together, so that the
/// threads share the strips of all of these.
template <int kStrips>
constexpr int kMovedSharers = kSharers<kStrips * kDepth.fresh()>;

/// Strips that go through all channels, and strips that go through all rows. Access 0 of the latter is row h, so that
/// the rows which the tensor has are the accesses from -h on.
template <int kStrips>
using MovedChannels = Accesses<kTileMovedChannels, kMovedSharers<kStrips>, kPlane.plane_bytes(), MovedSlice::kExact>;
template <int kStrips>
using MovedRows = Accesses<kPlane.met_h(), kMovedSharers<kStrips>, kPlane.row_bytes(), false>;

/// By chunks, from channels_last_3d. A strip is a chunk of a column, in all rows.
struct ByChunks {
    static constexpr int kPhases = kPlane.phases(), kChunks = chunks(kTileMovedChannels);
    static constexpr int kStrips = kChunks * kPhases * kPlane.phase_columns();

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int number,
                                                int first) {
        const int chunk = number % kChunks, at_w = number / kChunks, channel = chunk * kPlane.chunk_channels();
        const int column = w + at_w;
        const Strip strip = {src.voxel(h, column) + channel,
                             src.tensor.row_bytes(),
                             static_cast<unsigned>(column) < static_cast<unsigned>(src.tensor.w),
                             {-h, src.exists && channel < src.channels ? src.tensor.h - h : 0},
                             to + chunk * kPlane.plane_bytes() + at_w % kPhases * kPlane.phase_bytes() +
                                 at_w / kPhases * 16};
        copy_strip<16, MovedRows<kStrips>>(strip, first);
    }
};

/// By channels, from channels_last_3d. A strip is a cell of a phase of a channel, in all rows.
struct ByChannels {
    static constexpr int kPhases = kPlane.phases(), kCells = kPlane.phase_cells(), kCopies = kPlane.copies();
    static constexpr int kStrips = kTileMovedChannels * kPhases * kCells;

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int number,
                                                int first) {
        constexpr int kElements = kCellVoxels + kCopies - 1;
        const int channel = number % kTileMovedChannels, at = number / kTileMovedChannels;
        const int cell = at % kCells, phase = at / kCells, column = w + cell * kCellVoxels * kPhases + phase;
        const Strip strip = {src.voxel(h, column) + channel,
                             src.tensor.row_bytes(),
                             valid_columns<kElements>(column, kPhases, src.tensor.w),
                             {-h, src.exists && channel < src.channels ? src.tensor.h - h : 0},
                             to + channel * kPlane.plane_bytes() + phase * kPlane.phase_bytes() + cell * 16};
        move_strip<StridedCell<kCellVoxels, kCopies, int64_t{kPhases} * MovedSlice::kVoxelStep>, MovedRows<kStrips>>(
            strip, first);
    }
};

/// By channels, fp32 from NCDHW. A strip is a voxel of a row, in all channels; strips are in the order of memory.
struct ByWords {
    static constexpr int kStrips = kPlane.met_h() * kPlane.met_w();

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int number,
                                                int first) {
        constexpr int kPhases = kPlane.phases();
        const int row = number / kPlane.met_w(), at_w = number % kPlane.met_w(), column = w + at_w;
        const Strip strip = {src.voxel(h + row, column),
                             src.tensor.channel_bytes(),
                             valid_columns<1>(column, 1, src.tensor.w),
                             {0, src.has_row(h + row) ? src.channels : 0},
                             to + row * kPlane.row_bytes() + at_w % kPhases * kPlane.phase_bytes() +
                                 at_w / kPhases * 4};
        if constexpr (kCopiesWords) {
            copy_strip<4, MovedChannels<kStrips>>(strip, first);
        } else {
            move_strip<FloatWord, MovedChannels<kStrips>>(strip, first);
        }
    }
};

/// By channels, 16 bits from NCDHW, for few phases. A strip is a piece of a row, in all channels.
struct ByPieces {
    static constexpr SweepPiece kPiece = {kPlane.phases(), kPlane.copies()};
    static constexpr int kPieces = kPlane.copy_bytes() / 4 / kPiece.words(), kStrips = kPlane.met_h() * kPieces;

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int number,
                                                int first) {
        const int row = number / kPieces, piece = number % kPieces,
                  column = w + piece * (2 * kPiece.words() * kPiece.phases);
        const Strip strip = {src.voxel(h + row, column),
                             src.tensor.channel_bytes(),
                             valid_columns<kPiece.elements()>(column, 1, src.tensor.w),
                             {0, src.has_row(h + row) ? src.channels : 0},
                             to + row * kPlane.row_bytes() + piece * (kPiece.words() * 4)};
        move_pieces<kPiece.phases, kPiece.copies, kMovedBegin, MovedChannels<kStrips>>(src, strip, first);
    }
};

/// By channels, 16 bits from NCDHW, for any number of phases. A strip is a word of a row, which holds two neighbours of
/// a phase, in all channels; strips are in the order of shared memory.
struct ByPairs {
    static constexpr int kRowWords = kPlane.row_bytes() / 4, kStrips = kPlane.met_h() * kRowWords;

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int number,
                                                int first) {
        constexpr int kPhases = kPlane.phases(), kWords = kPlane.copy_bytes() / 4;
        const int row = number / kRowWords, phase = number % kRowWords / (kPlane.phase_bytes() / 4);
        const int copy = number / kWords % kPlane.copies();
        const int column = w + (number % kWords * 2 + copy) * kPhases + phase;
        const Strip strip = {src.voxel(h + row, column),
                             src.tensor.channel_bytes(),
                             valid_columns<2>(column, kPhases, src.tensor.w),
                             {0, src.has_row(h + row) ? src.channels : 0},
                             to + number * 4};
        move_strip<StridedPair<kPhases>, MovedChannels<kStrips>>(strip, first);
    }
};

/// The slices of the moved tensor that are loaded for one slice of the fixed tensor: those that it meets through the
/// taps of the block and the slice before did not, or all that it meets, where it is the first of a tile.
struct MovedSlices {
    const MovedTensor& tensor;
    const Pipeline& pipe;
    int64_t image;
    int64_t channel; // the first one, counted through all groups
    int channels;    // of the group from that one on
    int depth;       // the index along D of the first slice that is met
    int first_slot;  // its slot, counted on and on
    bool all;

    static constexpr int kMet = kDepth.met(), kFresh = kDepth.fresh();

    /// Loads all of them together, so that the loads of one slice do not wait for the stores of another.
    template <typename Way>
    __device__ __forceinline__ void load(int h, int w, int thread) const {
        constexpr int kStrips = Way::kStrips, kShares = kStrips * kMovedSharers<kStrips>;
        const int shares = kShares * (all ? kMet : kFresh);
#pragma unroll 1
        for (int i = thread; i < shares; i += kProducers) {
            const int strip = i % kStrips, rest = i / kStrips;
            const int number = all ? rest % kMet : rest % kFresh + (kMet - kFresh);
            const int first = all ? rest / kMet : rest / kFresh;
            const MovedSlice src(tensor, image, channel, channels, depth + number * kDepth.step());
            Way::move(src, h, w, pipe.moved((first_slot + number) % kSlots), strip, first);
        }
    }
};

__device__ __forceinline__ void load_moved(const MovedSlices& slices, int h, int w, int thread) {
    if constexpr (kMovedChunks) {
        slices.load<ByChunks>(h, w, thread);
    } else if constexpr (kChannelsLast) {
        slices.load<ByChannels>(h, w, thread);
    } else if constexpr (kElementBytes == 4) {
        slices.load<ByWords>(h, w, thread);
    } else if constexpr (kPlane.phases() <= SweepPiece::kMostPhases) {
        slices.load<ByPieces>(h, w, thread);
    } else {
        slices.load<ByPairs>(h, w, thread);
    }
}

} // namespace
