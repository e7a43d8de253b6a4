#pragma once

// The producers bring slices from global to shared memory. A thread has a place of a slice, a cell, a word or a piece
// of a row, and goes through the channels; in channels_last_3d its place is a channel of some columns, and it goes
// through the rows. So what depends on the place is computed once, and neighbouring threads read neighbours.
#include "sweep/move.cuh"
#include "sweep/walk.cuh"

namespace {

/// One of the tensors, as the CTA reads it. A row is shorter than 2^32 bytes, in channels_last_3d with all channels,
/// and so is a channel.
template <int kAllChannels>
struct Tensor {
    const Element *begin, *end;
    int64_t d;
    int h, w; // extents

    __device__ __forceinline__ Tensor(const void* tensor, const VoxelExtents& extents, int64_t images)
        : begin(static_cast<const Element*>(tensor)),
          end(begin + images * kAllChannels * extents.d * extents.h * extents.w), d(extents.d),
          h(static_cast<int>(extents.h)), w(static_cast<int>(extents.w)) {}

    static constexpr int kVoxelStep = kChannelsLast ? kAllChannels : 1; // elements from a voxel to the next
    __device__ __forceinline__ int64_t channel_step() const { return kChannelsLast ? 1 : d * h * w; }
    __device__ __forceinline__ uint32_t channel_bytes() const {
        return static_cast<uint32_t>(channel_step()) * kElementBytes;
    }
    __device__ __forceinline__ uint32_t row_bytes() const {
        return static_cast<uint32_t>(w) * (kVoxelStep * kElementBytes);
    }
};

/// A slice of an image of it, from the first channel of a tile on. kExact: whether all tiles have all their channels.
template <int kAllChannels, bool kExactTiles>
struct Slice {
    using Of = Tensor<kAllChannels>;
    static constexpr int kVoxelStep = Of::kVoxelStep;
    static constexpr bool kExact = kExactTiles;

    const Of& tensor;
    const Element* first; // of the tile's first channel, at voxel (0, 0) of the slice
    int channels;         // of the group from that one on
    bool exists;

    __device__ __forceinline__ Slice(const Of& of, int64_t image, int64_t channel, int channels, int at)
        : tensor(of), channels(channels), exists(at >= 0 && at < of.d) {
        const int64_t area = int64_t{of.h} * of.w;
        const int64_t channel_element = image * kAllChannels * of.d * area + channel * of.channel_step();
        first = of.begin + channel_element + at * area * kVoxelStep;
    }

    __device__ __forceinline__ bool has_row(int row) const {
        return exists && static_cast<unsigned>(row) < static_cast<unsigned>(tensor.h);
    }
    __device__ __forceinline__ const Element* voxel(int row, int column) const {
        return first + (int64_t{row} * tensor.w + column) * kVoxelStep;
    }
    /// Whether so many elements from one of the first channel on, and those before it in 16 bytes, are in the tensor
    /// in all channels.
    __device__ __forceinline__ bool has_around(const Element* from, int count) const {
        return from - tensor.begin >= 16 / kElementBytes - 1 &&
               from + (channels - 1) * tensor.channel_step() + count <= tensor.end;
    }
};

constexpr int chunks(int channels) {
    return (channels + kPlane.chunk_channels() - 1) / kPlane.chunk_channels();
}

using FixedTensor = Tensor<kGroups * kFixedChannels>;
using MovedTensor = Tensor<kGroups * kMovedChannels>;
using FixedSlice = Slice<kGroups * kFixedChannels, kFixedChannels % kTileFixedChannels == 0>;
using MovedSlice = Slice<kGroups * kMovedChannels, kMovedChannels % kTileMovedChannels == 0>;

/// Moves a piece of a row in all channels.
template <int kPhases, int kCopies, int kBegin, typename Of, typename SliceOf>
__device__ __forceinline__ void move_pieces(const SliceOf& src, const PlaceCells& cells, int first) {
    using Whole = RowPiece<kPhases, kCopies, kBegin, true>;
    if (src.has_around(cells.from, 2 * Whole::kRegisters)) {
        move_cells<Whole, Of>(cells, first);
    } else {
        move_cells<RowPiece<kPhases, kCopies, kBegin, false>, Of>(cells, first);
    }
}

/// Brings a slice of the fixed tensor by chunks.
__device__ __forceinline__ void load_fixed_chunks(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kChunks = chunks(kTileFixedChannels), kPlaces = kChunks * kPlane.tile_w();
    for_each_place<kPlaces>(thread, [&](int place, int first) {
        const int chunk = place % kChunks, at_w = place / kChunks, channel = chunk * kPlane.chunk_channels();
        const int column = w + at_w;
        const PlaceCells cells = {src.voxel(h, column) + channel,
                                  src.tensor.row_bytes(),
                                  column < src.tensor.w,
                                  0,
                                  channel < src.channels ? src.tensor.h - h : 0,
                                  to + chunk * kPlane.fixed_plane_bytes() + at_w * 16};
        copy_members<16, Members<kTileH, kSharers<kPlaces>, kPlane.tile_w() * 16, false>>(cells, first);
    });
}

/// The same by channels, where channels are neighbours in memory.
__device__ __forceinline__ void load_fixed_channels(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kPlaces = kTileFixedChannels * kRowCells;
    for_each_place<kPlaces>(thread, [&](int place, int first) {
        const int channel = place % kTileFixedChannels, cell = place / kTileFixedChannels;
        const int column = w + cell * kCellVoxels;
        const PlaceCells cells = {src.voxel(h, column) + channel,
                                  src.tensor.row_bytes(),
                                  existing<kCellVoxels>(column, 1, src.tensor.w),
                                  0,
                                  channel < src.channels ? src.tensor.h - h : 0,
                                  to + cell * kCellPitch + channel * 16};
        move_cells<CellElements<kCellVoxels, 1, FixedSlice::kVoxelStep>,
                   Members<kTileH, kSharers<kPlaces>, kRowCells * kCellPitch, false>>(cells, first);
    });
}

/// The same by channels, where voxels are neighbours in memory.
__device__ __forceinline__ void load_fixed_cells(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kPlaces = kPlane.cells();
    using Of = Members<kTileFixedChannels, kSharers<kPlaces>, 16, FixedSlice::kExact>;
    for_each_place<kPlaces>(thread, [&](int place, int first) {
        const int row = h + place / kRowCells, column = w + place % kRowCells * kCellVoxels;
        const PlaceCells cells = {src.voxel(row, column),
                                  src.tensor.channel_bytes(),
                                  existing<kCellVoxels>(column, 1, src.tensor.w),
                                  0,
                                  row < src.tensor.h ? src.channels : 0,
                                  to + place * kCellPitch};
        if constexpr (kFixedCopied) {
            copy_members<16, Of>(cells, first);
        } else if constexpr (kFixedAligned) {
            move_cells<AlignedCell, Of>(cells, first);
        } else if constexpr (kElementBytes == 2) {
            move_pieces<1, 1, -1, Of>(src, cells, first);
        } else {
            move_cells<CellElements<kCellVoxels, 1, 1>, Of>(cells, first);
        }
    });
}

// How slices of the moved tensor are brought. Each way has places in a slice, a member for each channel or row, and
// moves members of a place from `first` on.

/// Threads that share a place of the slices that come with a slice of the fixed tensor, and how they pass its members.
template <int kPlaces>
constexpr int kMovedSharers = kSharers<kPlaces * kDepth.fresh()>;
template <int kPlaces>
using MovedChannels = Members<kTileMovedChannels, kMovedSharers<kPlaces>, kPlane.plane_bytes(), MovedSlice::kExact>;
template <int kPlaces>
using MovedRows = Members<kPlane.met_h(), kMovedSharers<kPlaces>, kPlane.row_bytes(), false>;

/// By chunks, each phase of a row by itself.
struct ByChunks {
    static constexpr int kPhases = kPlane.phases(), kChunks = chunks(kTileMovedChannels);
    static constexpr int kPlaces = kChunks * kPhases * kPlane.phase_columns();

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int place,
                                                int first) {
        const int chunk = place % kChunks, at_w = place / kChunks, channel = chunk * kPlane.chunk_channels();
        const int column = w + at_w;
        const PlaceCells cells = {src.voxel(h, column) + channel,
                                  src.tensor.row_bytes(),
                                  static_cast<unsigned>(column) < static_cast<unsigned>(src.tensor.w),
                                  -h,
                                  src.exists && channel < src.channels ? src.tensor.h - h : 0,
                                  to + chunk * kPlane.plane_bytes() + at_w % kPhases * kPlane.phase_bytes() +
                                      at_w / kPhases * 16};
        copy_members<16, MovedRows<kPlaces>>(cells, first);
    }
};

/// By channels, where channels are neighbours in memory: cell by cell of each phase.
struct ByChannels {
    static constexpr int kPhases = kPlane.phases(), kCells = kPlane.phase_cells(), kCopies = kPlane.copies();
    static constexpr int kPlaces = kTileMovedChannels * kPhases * kCells;

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int place,
                                                int first) {
        constexpr int kElements = kCellVoxels + kCopies - 1;
        const int channel = place % kTileMovedChannels, at = place / kTileMovedChannels;
        const int cell = at % kCells, phase = at / kCells, column = w + cell * kCellVoxels * kPhases + phase;
        const PlaceCells cells = {src.voxel(h, column) + channel,
                                  src.tensor.row_bytes(),
                                  existing<kElements>(column, kPhases, src.tensor.w),
                                  -h,
                                  src.exists && channel < src.channels ? src.tensor.h - h : 0,
                                  to + channel * kPlane.plane_bytes() + phase * kPlane.phase_bytes() + cell * 16};
        move_cells<CellElements<kCellVoxels, kCopies, int64_t{kPhases} * MovedSlice::kVoxelStep>, MovedRows<kPlaces>>(
            cells, first);
    }
};

/// By channels, where voxels are neighbours in memory: of fp32 a word is a voxel, in the order of memory.
struct ByWords {
    static constexpr int kPlaces = kPlane.met_h() * kPlane.met_w();

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int place,
                                                int first) {
        constexpr int kPhases = kPlane.phases();
        const int row = place / kPlane.met_w(), at_w = place % kPlane.met_w(), column = w + at_w;
        const PlaceCells cells = {src.voxel(h + row, column),
                                  src.tensor.channel_bytes(),
                                  existing<1>(column, 1, src.tensor.w),
                                  0,
                                  src.has_row(h + row) ? src.channels : 0,
                                  to + row * kPlane.row_bytes() + at_w % kPhases * kPlane.phase_bytes() +
                                      at_w / kPhases * 4};
        if constexpr (kCopiesWords) {
            copy_members<4, MovedChannels<kPlaces>>(cells, first);
        } else {
            move_cells<WordElement, MovedChannels<kPlaces>>(cells, first);
        }
    }
};

/// The same of 16-bit elements, piece by piece.
struct ByPieces {
    static constexpr SweepPiece kPiece = {kPlane.phases(), kPlane.copies()};
    static constexpr int kPieces = kPlane.copy_bytes() / 4 / kPiece.words(), kPlaces = kPlane.met_h() * kPieces;

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int place,
                                                int first) {
        const int row = place / kPieces, piece = place % kPieces,
                  column = w + piece * (2 * kPiece.words() * kPiece.phases);
        const PlaceCells cells = {src.voxel(h + row, column),
                                  src.tensor.channel_bytes(),
                                  existing<kPiece.elements()>(column, 1, src.tensor.w),
                                  0,
                                  src.has_row(h + row) ? src.channels : 0,
                                  to + row * kPlane.row_bytes() + piece * (kPiece.words() * 4)};
        move_pieces<kPiece.phases, kPiece.copies, kMovedBegin, MovedChannels<kPlaces>>(src, cells, first);
    }
};

/// The same word by word, which is two neighbours of a phase, in the order of shared memory.
struct ByPairs {
    static constexpr int kRowWords = kPlane.row_bytes() / 4, kPlaces = kPlane.met_h() * kRowWords;

    __device__ __forceinline__ static void move(const MovedSlice& src, int h, int w, uint32_t to, int place,
                                                int first) {
        constexpr int kPhases = kPlane.phases(), kWords = kPlane.copy_bytes() / 4;
        const int row = place / kRowWords, phase = place % kRowWords / (kPlane.phase_bytes() / 4);
        const int copy = place / kWords % kPlane.copies();
        const int column = w + (place % kWords * 2 + copy) * kPhases + phase;
        const PlaceCells cells = {src.voxel(h + row, column),
                                  src.tensor.channel_bytes(),
                                  existing<2>(column, kPhases, src.tensor.w),
                                  0,
                                  src.has_row(h + row) ? src.channels : 0,
                                  to + place * 4};
        move_cells<PairElements<kPhases>, MovedChannels<kPlaces>>(cells, first);
    }
};

/// The slices of the moved tensor that a slice of the fixed one meets through the taps of a block: those that the slice
/// before did not meet, or all of them.
struct MovedSlices {
    const MovedTensor& tensor;
    const Pipeline& pipe;
    int64_t image;
    int64_t channel;
    int channels;
    int depth; // of the first slice that is met
    int slot;  // of that one, counted on and on
    bool all;

    static constexpr int kMet = kDepth.met(), kFresh = kDepth.fresh();

    /// All of these slices at once: the loads of one do not wait for the stores of another.
    template <typename Way>
    __device__ __forceinline__ void bring(int h, int w, int thread) const {
        constexpr int kPlaces = Way::kPlaces, kShares = kPlaces * kMovedSharers<kPlaces>;
        const int shares = kShares * (all ? kMet : kFresh);
#pragma unroll 1
        for (int i = thread; i < shares; i += kProducers) {
            const int place = i % kPlaces, rest = i / kPlaces;
            const int number = all ? rest % kMet : rest % kFresh + (kMet - kFresh);
            const int first = all ? rest / kMet : rest / kFresh;
            const MovedSlice src(tensor, image, channel, channels, depth + number * kDepth.step());
            Way::move(src, h, w, pipe.moved((slot + number) % kSlots), place, first);
        }
    }
};

__device__ __forceinline__ void load_fixed(const FixedSlice& src, int h, int w, uint32_t to, int thread) {
    if constexpr (kFixedChunks) {
        load_fixed_chunks(src, h, w, to, thread);
    } else if constexpr (kChannelsLast) {
        load_fixed_channels(src, h, w, to, thread);
    } else {
        load_fixed_cells(src, h, w, to, thread);
    }
}

__device__ __forceinline__ void load_moved(const MovedSlices& slices, int h, int w, int thread) {
    if constexpr (kMovedChunks) {
        slices.bring<ByChunks>(h, w, thread);
    } else if constexpr (kChannelsLast) {
        slices.bring<ByChannels>(h, w, thread);
    } else if constexpr (kElementBytes == 4) {
        slices.bring<ByWords>(h, w, thread);
    } else if constexpr (kPlane.phases() <= SweepPiece::kMostPhases) {
        slices.bring<ByPieces>(h, w, thread);
    } else {
        slices.bring<ByPairs>(h, w, thread);
    }
}

/// How far the consumers have come: what they have released is free to be overwritten.
struct Released {
    Walk walk; // of the first slice that they have not released

    /// Waits until the stage of a slice, and the slots of all that it meets, are free.
    __device__ __forceinline__ void wait(const Pipeline& pipe, const Walk& at) {
        while (walk.passed <= at.passed - kStages || walk.first < at.first + kDepth.met() - kSlots) {
            ptx::barrier_wait(pipe.empty(walk.stage()), walk.parity());
            walk.advance();
        }
    }
};

/// Arrives for what this thread has stored in a stage, and once more when its copies are done.
__device__ __forceinline__ void signal_full(const Pipeline& pipe, int stage) {
    ptx::fence_shared_async();
    ptx::barrier_arrive(pipe.full(stage));
    if constexpr (kHasCopies) ptx::copy_async_arrive(pipe.full(stage));
}

struct Tensors {
    FixedTensor fixed;
    MovedTensor moved;

    __device__ __forceinline__ explicit Tensors(const SweepArguments& args)
        : fixed(args.fixed, args.fixed_extents, args.images), moved(args.moved, args.moved_extents, args.images) {}
};

/// Brings a slice of the fixed tensor and those of the moved one that it meets and the slice before did not.
__device__ __forceinline__ void bring(const Tensors& tensors, const Item& item, const Pipeline& pipe,
                                      const TilePlace& tile, const Walk& walk, int thread) {
    const int h = tile.h * kTileH, w = tile.w * kPlane.tile_w();
    const int met_h = h * kMovedStrideH - kMovedPaddingH + item.tap_h * kDilationH;
    const int met_w = w * kMovedStrideW - kMovedPaddingW + item.tap_w * kDilationW;
    const int met_d = walk.d * kMovedStrideD - kMovedPaddingD + item.tap_d * kDilationD;
    load_fixed({tensors.fixed, tile.image, int64_t{item.group} * kFixedChannels + item.fixed_first,
                kFixedChannels - item.fixed_first, walk.d},
               h, w, pipe.fixed(walk.stage()), thread);
    load_moved({tensors.moved, pipe, tile.image, int64_t{item.group} * kMovedChannels + item.moved_first,
                kMovedChannels - item.moved_first, met_d, walk.first, walk.begins()},
               met_h, met_w, thread);
}

__device__ __forceinline__ void produce(const SweepArguments& args, const Item& item, const Pipeline& pipe,
                                        int thread) {
    const Tensors tensors(args);
    TilePlace tile(args, item);
    Released released = {Walk(args, item)};
#pragma unroll 1
    for (Walk walk(args, item); walk.passed < item.slices; walk.advance()) {
        if (walk.passed > 0 && walk.d == 0) tile.advance(args);
        released.wait(pipe, walk);
        bring(tensors, item, pipe, tile, walk, thread);
        signal_full(pipe, walk.stage());
    }
}

} // namespace
