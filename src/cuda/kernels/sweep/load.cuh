#pragma once

// The producers bring slices from global to shared memory. Where there is no voxel they store zeros, and fp32 is
// rounded to tf32 unless it is copied as it is. A thread has a place of a slice, a cell or a word of a row, and goes
// through the channels; in channels_last_3d its place is a channel of some columns, and it goes through the rows. So
// what depends on the place is computed once, and neighbouring threads read neighbours.
#include "sweep/walk.cuh"

namespace {

using Element = typename Unsigned<kElementBytes>::Type;
constexpr int kCellVoxels = kPlane.cell_voxels();

/// One of the tensors, at a slice of an image. A row has fewer than 2^31 elements, in channels_last_3d with those of
/// all channels.
template <int kAllChannels>
struct Slice {
    const Element* first; // of the item's first channel, at voxel (0, 0) of the slice
    int channels;         // of the item's tile that exist
    int h, w;             // extents
    int64_t channel_step; // elements from a channel to the next
    bool exists;

    __device__ __forceinline__ Slice(const void* tensor, const VoxelExtents& extents, int64_t image, int64_t channel,
                                     int channels, int d)
        : channels(channels), h(static_cast<int>(extents.h)), w(static_cast<int>(extents.w)),
          channel_step(kChannelsLast ? 1 : extents.d * extents.h * extents.w), exists(d >= 0 && d < extents.d) {
        const int64_t volume = extents.d * extents.h * extents.w, area = extents.h * extents.w;
        const int64_t channel_element = (image * kAllChannels) * volume + channel * channel_step;
        first = static_cast<const Element*>(tensor) + channel_element + d * area * kVoxelStep;
    }

    static constexpr int kVoxelStep = kChannelsLast ? kAllChannels : 1; // elements from a voxel to the next
};

/// The elements of a word of shared memory.
__device__ __forceinline__ uint32_t word_of(const Element* values) {
    if constexpr (kElementBytes == 4) {
        return ptx::float_to_tf32(__uint_as_float(values[0]));
    } else {
        return uint32_t{values[0]} | uint32_t{values[1]} << 16;
    }
}

/// Two elements of a word, kStep apart in memory.
template <int kStep>
struct PairElements {
    static constexpr int kRegisters = 2;
    Element values[2];

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
#pragma unroll
        for (int i = 0; i < 2; ++i) values[i] = exist >> i & 1 ? __ldg(first + i * kStep) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to) const { ptx::store_shared(to, word_of(values)); }
};

/// A word of fp32.
struct WordElement {
    static constexpr int kRegisters = 1;
    Element value;

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
        value = exist != 0 ? __ldg(first) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to) const { ptx::store_shared(to, word_of(&value)); }
};

/// The elements of a cell, kStep apart in memory, and of a second one that begins one element further on.
template <int kVoxels, int kCopies, int64_t kStep>
struct CellElements {
    static constexpr int kRegisters = kVoxels + kCopies - 1;
    Element values[kRegisters];

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
#pragma unroll
        for (int i = 0; i < kRegisters; ++i)
            values[i] = exist >> i & 1 ? __ldg(first + i * kStep) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to) const {
#pragma unroll
        for (int copy = 0; copy < kCopies; ++copy) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = word_of(values + copy + i * kPlane.word_voxels());
            ptx::store_shared(to + copy * kPlane.copy_bytes(), words);
        }
    }
};

/// A cell that exists as a whole or not at all, and lies at a multiple of 16 bytes.
struct AlignedCell {
    static constexpr int kRegisters = 4;
    uint4 words;

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
        words = exist != 0 ? __ldg(reinterpret_cast<const uint4*>(first)) : uint4{};
    }
    __device__ __forceinline__ void store(uint32_t to) const {
        uint32_t rounded[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if constexpr (kElementBytes == 4) rounded[i] = ptx::float_to_tf32(__uint_as_float(rounded[i]));
        ptx::store_shared(to, rounded);
    }
};

/// Bit i: whether column first + i · step of a row of `extent` voxels exists.
template <int kCount>
__device__ __forceinline__ uint32_t existing(int first, int step, int extent) {
    uint32_t mask = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
        mask |= static_cast<uint32_t>(static_cast<unsigned>(first + i * step) < static_cast<unsigned>(extent)) << i;
    return mask;
}

/// Threads that share a place, where there are more threads than places. Each has every kSharers-th of its members.
template <int kPlaces>
constexpr int kSharers = kPlaces < kProducers ? kProducers / kPlaces : 1;

/// Calls body(place, first) for the places of a thread: `first` is its first member of the place.
template <int kPlaces, typename Body>
__device__ __forceinline__ void for_each_place(int thread, const Body& body) {
#pragma unroll 1
    for (int i = thread; i < kPlaces * kSharers<kPlaces>; i += kProducers) body(i % kPlaces, i / kPlaces);
}

/// A place has a cell, or a word, for each member: a channel or a row. Members from `begin` to `end` exist.
struct PlaceCells {
    const Element* from; // of member 0
    int64_t step;        // elements from a member to the next
    uint32_t exist;      // the elements of a cell that exist, by bits
    int begin, end;
    uint32_t to; // of member 0
};

/// Moves every kStep-th cell of a place from `first` on. A member is kToStep bytes behind the one before in shared
/// memory. Many loads are under way before the first store.
template <typename Cell, int kMembers, int kStep, int kToStep>
__device__ __forceinline__ void move_cells(const PlaceCells& cells, int first) {
    constexpr int kFit = kLoadedRegisters / Cell::kRegisters, kNeeded = (kMembers + kStep - 1) / kStep;
    constexpr int kBatch = kFit < kNeeded ? kFit : kNeeded;
    const Element* from = cells.from + first * cells.step;
    uint32_t to = cells.to + first * kToStep;
#pragma unroll 1
    for (int member = first; member < kMembers; member += kBatch * kStep) {
        Cell batch[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
            const int at = member + i * kStep;
            batch[i].load(from, at >= cells.begin && at < cells.end ? cells.exist : 0);
            from += kStep * cells.step;
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (i == 0 || member + i * kStep < kMembers) batch[i].store(to + i * (kStep * kToStep));
        to += kBatch * kStep * kToStep;
    }
}

/// The same by copies of 4 or 16 bytes for each member, which arrive some time later.
template <int kBytes, int kMembers, int kStep, int kToStep>
__device__ __forceinline__ void copy_members(const PlaceCells& cells, int first) {
    const Element* from = cells.from + first * cells.step;
    uint32_t to = cells.to + first * kToStep;
#pragma unroll 4
    for (int member = first; member < kMembers; member += kStep) {
        const bool exists = member >= cells.begin && member < cells.end && cells.exist != 0;
        if constexpr (kBytes == 16) {
            ptx::copy_async_part(to, from, exists ? 16 : 0);
        } else {
            ptx::copy_async_word(to, from, exists ? 4 : 0);
        }
        from += kStep * cells.step;
        to += kStep * kToStep;
    }
}

constexpr int chunks(int channels) {
    return (channels + kPlane.chunk_channels() - 1) / kPlane.chunk_channels();
}

/// Brings a slice of the fixed tensor, by chunks or by the cells of channels.
__device__ __forceinline__ void load_fixed(const Slice<kGroups * kFixedChannels>& src, int h, int w, uint32_t to,
                                           int thread) {
    constexpr int kVoxelStep = Slice<kGroups * kFixedChannels>::kVoxelStep;
    if constexpr (kFixedChunks) {
        constexpr int kChunks = chunks(kTileFixedChannels), kPlaces = kChunks * kPlane.tile_w();
        for_each_place<kPlaces>(thread, [&](int place, int first) {
            const int chunk = place % kChunks, at_w = place / kChunks, channel = chunk * kPlane.chunk_channels();
            const int column = w + at_w, row_step = src.w * kVoxelStep;
            const PlaceCells cells = {src.first + int64_t{h} * row_step + int64_t{column} * kVoxelStep + channel,
                                      row_step,
                                      column < src.w,
                                      0,
                                      channel < src.channels ? src.h - h : 0,
                                      to + chunk * kPlane.fixed_plane_bytes() + at_w * 16};
            copy_members<16, kTileH, kSharers<kPlaces>, kPlane.tile_w() * 16>(cells, first);
        });
    } else if constexpr (kChannelsLast) {
        constexpr int kPlaces = kTileFixedChannels * kRowCells;
        for_each_place<kPlaces>(thread, [&](int place, int first) {
            const int channel = place % kTileFixedChannels, cell = place / kTileFixedChannels;
            const int column = w + cell * kCellVoxels, row_step = src.w * kVoxelStep;
            const PlaceCells cells = {src.first + int64_t{h} * row_step + int64_t{column} * kVoxelStep + channel,
                                      row_step,
                                      existing<kCellVoxels>(column, 1, src.w),
                                      0,
                                      channel < src.channels ? src.h - h : 0,
                                      to + cell * kCellPitch + channel * 16};
            move_cells<CellElements<kCellVoxels, 1, kVoxelStep>, kTileH, kSharers<kPlaces>, kRowCells * kCellPitch>(
                cells, first);
        });
    } else {
        constexpr int kPlaces = kPlane.cells();
        using Cell = Select<kFixedAligned, AlignedCell, CellElements<kCellVoxels, 1, 1>>;
        for_each_place<kPlaces>(thread, [&](int place, int first) {
            const int row = h + place / kRowCells, column = w + place % kRowCells * kCellVoxels;
            const PlaceCells cells = {src.first + int64_t{row} * src.w + column,
                                      src.channel_step,
                                      existing<kCellVoxels>(column, 1, src.w),
                                      0,
                                      row < src.h ? src.channels : 0,
                                      to + place * kCellPitch};
            move_cells<Cell, kTileFixedChannels, kSharers<kPlaces>, 16>(cells, first);
        });
    }
}

using MovedSlice = Slice<kGroups * kMovedChannels>;

/// Brings a slice of the moved tensor by chunks, each phase of a row by itself.
__device__ __forceinline__ void load_moved_chunks(const MovedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kPhases = kPlane.phases(), kColumns = kPlane.phase_columns();
    constexpr int kChunks = chunks(kTileMovedChannels), kPlaces = kChunks * kPhases * kColumns;
    for_each_place<kPlaces>(thread, [&](int place, int first) {
        const int chunk = place % kChunks, at_w = place / kChunks, channel = chunk * kPlane.chunk_channels();
        const int column = w + at_w, row_step = src.w * MovedSlice::kVoxelStep;
        const PlaceCells cells = {
            src.first + int64_t{h} * row_step + int64_t{column} * MovedSlice::kVoxelStep + channel,
            row_step,
            static_cast<unsigned>(column) < static_cast<unsigned>(src.w),
            -h,
            src.exists && channel < src.channels ? src.h - h : 0,
            to + chunk * kPlane.plane_bytes() + at_w % kPhases * kPlane.phase_bytes() + at_w / kPhases * 16};
        copy_members<16, kPlane.met_h(), kSharers<kPlaces>, kPlane.row_bytes()>(cells, first);
    });
}

/// The same by channels, where channels are neighbours in memory: cell by cell of each phase.
__device__ __forceinline__ void load_moved_channels(const MovedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kPhases = kPlane.phases(), kCells = kPlane.phase_cells(), kCopies = kPlane.copies();
    constexpr int kElements = kCellVoxels + kCopies - 1;
    constexpr int kPlaces = kTileMovedChannels * kPhases * kCells;
    for_each_place<kPlaces>(thread, [&](int place, int first) {
        const int channel = place % kTileMovedChannels, at = place / kTileMovedChannels;
        const int cell = at % kCells, phase = at / kCells, column = w + cell * kCellVoxels * kPhases + phase;
        const int row_step = src.w * MovedSlice::kVoxelStep;
        const PlaceCells cells = {src.first + int64_t{h} * row_step + int64_t{column} * MovedSlice::kVoxelStep +
                                      channel,
                                  row_step,
                                  existing<kElements>(column, kPhases, src.w),
                                  -h,
                                  src.exists && channel < src.channels ? src.h - h : 0,
                                  to + channel * kPlane.plane_bytes() + phase * kPlane.phase_bytes() + cell * 16};
        move_cells<CellElements<kCellVoxels, kCopies, int64_t{kPhases} * MovedSlice::kVoxelStep>, kPlane.met_h(),
                   kSharers<kPlaces>, kPlane.row_bytes()>(cells, first);
    });
}

/// The same by channels, where voxels are neighbours in memory: of fp32 a word is a voxel, in the order of memory.
__device__ __forceinline__ void load_moved_words(const MovedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kPhases = kPlane.phases(), kPlaces = kPlane.met_h() * kPlane.met_w();
    for_each_place<kPlaces>(thread, [&](int place, int first) {
        const int row = place / kPlane.met_w(), at_w = place % kPlane.met_w(), column = w + at_w;
        const bool exists = src.exists && static_cast<unsigned>(h + row) < static_cast<unsigned>(src.h);
        const PlaceCells cells = {src.first + int64_t{h + row} * src.w + column,
                                  src.channel_step,
                                  existing<1>(column, 1, src.w),
                                  0,
                                  exists ? src.channels : 0,
                                  to + row * kPlane.row_bytes() + at_w % kPhases * kPlane.phase_bytes() +
                                      at_w / kPhases * 4};
        if constexpr (kCopiesWords) {
            copy_members<4, kTileMovedChannels, kSharers<kPlaces>, kPlane.plane_bytes()>(cells, first);
        } else {
            move_cells<WordElement, kTileMovedChannels, kSharers<kPlaces>, kPlane.plane_bytes()>(cells, first);
        }
    });
}

/// The same of 16-bit elements: a word is two neighbours of a phase, in the order of shared memory.
__device__ __forceinline__ void load_moved_pairs(const MovedSlice& src, int h, int w, uint32_t to, int thread) {
    constexpr int kPhases = kPlane.phases(), kWords = kPlane.copy_bytes() / 4, kRowWords = kPlane.row_bytes() / 4;
    constexpr int kPlaces = kPlane.met_h() * kRowWords;
    for_each_place<kPlaces>(thread, [&](int place, int first) {
        const int row = place / kRowWords, phase = place % kRowWords / (kPlane.phase_bytes() / 4);
        const int copy = place / kWords % kPlane.copies();
        const int column = w + (place % kWords * 2 + copy) * kPhases + phase;
        const bool exists = src.exists && static_cast<unsigned>(h + row) < static_cast<unsigned>(src.h);
        const PlaceCells cells = {src.first + int64_t{h + row} * src.w + column,
                                  src.channel_step,
                                  existing<2>(column, kPhases, src.w),
                                  0,
                                  exists ? src.channels : 0,
                                  to + place * 4};
        move_cells<PairElements<kPhases>, kTileMovedChannels, kSharers<kPlaces>, kPlane.plane_bytes()>(cells, first);
    });
}

__device__ __forceinline__ void load_moved(const MovedSlice& src, int h, int w, uint32_t to, int thread) {
    if constexpr (kMovedChunks) {
        load_moved_chunks(src, h, w, to, thread);
    } else if constexpr (kChannelsLast) {
        load_moved_channels(src, h, w, to, thread);
    } else if constexpr (kElementBytes == 2) {
        load_moved_pairs(src, h, w, to, thread);
    } else {
        load_moved_words(src, h, w, to, thread);
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

/// Brings a slice of the fixed tensor and those of the moved one that it meets and the slice before did not.
__device__ __forceinline__ void bring(const SweepArguments& args, const Item& item, const Pipeline& pipe,
                                      const TilePlace& tile, const Walk& walk, int thread) {
    const int h = tile.h * kTileH, w = tile.w * kPlane.tile_w();
    const int met_h = h * kMovedStrideH - kMovedPaddingH + item.tap_h * kDilationH;
    const int met_w = w * kMovedStrideW - kMovedPaddingW + item.tap_w * kDilationW;
    const int met_d = walk.d * kMovedStrideD - kMovedPaddingD + item.tap_d * kDilationD;
#pragma unroll 1
    for (int slice = walk.begins() ? 0 : kDepth.met() - kDepth.fresh(); slice < kDepth.met(); ++slice)
        load_moved({args.moved, args.moved_extents, tile.image, int64_t{item.group} * kMovedChannels + item.moved_first,
                    kMovedChannels - item.moved_first, met_d + slice * kDepth.step()},
                   met_h, met_w, pipe.moved((walk.first + slice) % kSlots), thread);
    load_fixed({args.fixed, args.fixed_extents, tile.image, int64_t{item.group} * kFixedChannels + item.fixed_first,
                kFixedChannels - item.fixed_first, walk.d},
               h, w, pipe.fixed(walk.stage()), thread);
}

__device__ __forceinline__ void produce(const SweepArguments& args, const Item& item, const Pipeline& pipe,
                                        int thread) {
    TilePlace tile(args, item);
    Released released = {Walk(args, item)};
#pragma unroll 1
    for (Walk walk(args, item); walk.passed < item.slices; walk.advance()) {
        if (walk.passed > 0 && walk.d == 0) tile.advance(args);
        released.wait(pipe, walk);
        bring(args, item, pipe, tile, walk, thread);
        signal_full(pipe, walk.stage());
    }
}

} // namespace
