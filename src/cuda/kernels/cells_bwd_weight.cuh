// bwd_weight by cells: grad_weight[ci, co, j] sums src[n, ci, i] · grad_dst[n, co, s·i − p + j·d] over all samples n
// and the voxels i that tap j keeps inside dst, and grad_bias[co] sums grad_dst[n, co, o].
//
// A cell is a block of kCellH x kCellW voxels of one slice of src. Its window of grad_dst is that of bwd_data: a thread
// loads it once and multiplies each of its voxels with every voxel of the cell that a tap joins it to. The sums of all
// taps along H and W stay in registers, for one tap along D and kSrcBlock x kDstBlock pairs of channels.
//
// The threads of a CTA differ in the tap along D, in the cell and, in channels-last, in the channel of dst, of which a
// thread has one then, or a pack: there each channel of dst has one channel of src. A CTA walks along D, slice by
// slice, so that the L1 cache has what two windows share. It adds what its threads have summed over different cells and
// leaves that as the partial sums of its split; add_splits.cuh adds the splits.
#include "load/cell_window.cuh"
#include "shared/cells.cuh"

namespace {

using tconv3d::cuda::CellBwdWeightArguments;
using tconv3d::cuda::VoxelExtents;

constexpr int kVolume = kCellH * kCellW;
constexpr int kPairs = kSrcBlock * kDstBlock * kPack; // one after the other for a, b and the channel of a pack
constexpr int kWeightSums = kPairs * kPlaneTaps;
constexpr int kBiasSums = kDstBlock * kPack;
constexpr int kSums = kWeightSums + kBiasSums; // the last ones are the bias's
constexpr int kTapsD = kShiftsD;               // each reads at a shift of its own, in the same order
constexpr int kTapThreads = kThreads / kTapsD;
constexpr int kCells = kTapThreads / kLanes; // of a CTA

constexpr int kAllSrcChannels = kGroups * kSrcChannels, kAllDstChannels = kGroups * kDstChannels;
constexpr int kSrcStride = kChannelsLast ? kAllSrcChannels : 1; // from a voxel to the next
constexpr int kDstStride = kChannelsLast ? kAllDstChannels : 1;
constexpr int kSrcBlocks = (kSrcChannels + kSrcBlock - 1) / kSrcBlock; // of a group
constexpr int kDstBlocks = (kDstChannels + kDstBlock - 1) / kDstBlock;
constexpr bool kCutsAllDst = kLanes * kPack > 1; // blocks of channels of dst are cut through all groups
constexpr int kLaneBlocks = (kAllDstChannels + kLanes * kPack - 1) / (kLanes * kPack);
constexpr int64_t kAllBlocks = int64_t{1} * kSrcBlocks * (kCutsAllDst ? kLaneBlocks : kGroups * kDstBlocks);
constexpr int64_t kTaps = int64_t{1} * kTapsD * kPlaneTaps;
constexpr int64_t kWeights = kTaps * kAllSrcChannels * kDstChannels;

using Sums = Compute[kSums];
using Factors = Voxel[kSrcBlock][kVolume];

/// What a thread has summed in all chains. A thread with packs has many sums, and leaves these in shared memory: in
/// registers they would keep a third CTA from the multiprocessor.
struct TotalsInRegisters {
    Sums values;

    __device__ __forceinline__ Compute& operator[](int i) { return values[i]; }
};
struct TotalsInShared {
    Compute* values;

    __device__ __forceinline__ TotalsInShared() {
        __shared__ Compute all[kSums * kThreads];
        values = all + threadIdx.x;
    }
    __device__ __forceinline__ Compute& operator[](int i) { return values[i * kThreads]; }
};
using Totals = Select<(kPack > 1) && kSplitsChains, TotalsInShared, TotalsInRegisters>;

/// The channels of a thread, or its packs, counted over all groups: the first of each side, and how many exist, none
/// for a lane beyond the last.
struct Channels {
    int src, dst, src_count, dst_count;

    __device__ __forceinline__ Channels(int64_t block, int lane) {
        const int src_block = static_cast<int>(block % kSrcBlocks), dst_block = static_cast<int>(block / kSrcBlocks);
        if constexpr (!kCutsAllDst) {
            const int first = dst_block % kDstBlocks * kDstBlock;
            dst = dst_block / kDstBlocks * kDstChannels + first;
            dst_count = kDstChannels - first < kDstBlock ? kDstChannels - first : kDstBlock;
        } else {
            const int own = (dst_block * kLanes + lane) * kPack;
            dst_count = own < kAllDstChannels ? 1 : 0;
            dst = dst_count > 0 ? own : kAllDstChannels - kPack;
        }
        const int first = src_block * kSrcBlock;
        src = dst / kDstChannels * kSrcChannels + first;
        src_count = kSrcChannels - first < kSrcBlock ? kSrcChannels - first : kSrcBlock;
    }

    /// Of all blocks that read a channel of dst, those with the group's first channels of src sum it up.
    __device__ __forceinline__ bool sums_bias() const { return src % kSrcChannels == 0; }
};

/// What a thread of a CTA has to itself.
struct Part {
    int tap_d;
    int cell; ///< of kCells
    int lane; ///< of kLanes, with neighbouring channels of dst
};

/// Where a thread is: its cell in a slice of src, and the tensors of its sample from the first of its channels on.
struct Place {
    Offset h, w; ///< of the cell, counted in cells
    Window window;
    bool has_more; ///< voxels of dst than its own, along H or W
    const Storage* src;
    const Storage* grad_dst;
};

__device__ __forceinline__ int64_t volume(const VoxelExtents& extents) {
    return extents.d * extents.h * extents.w;
}

/// From a channel to the next.
__device__ __forceinline__ int64_t channel_stride(const VoxelExtents& extents) {
    return kChannelsLast ? 1 : volume(extents);
}

/// The i-th of a thread's channels, of which so many exist; any other is the first one again.
__device__ __forceinline__ const Storage* channel(const Storage* first, const VoxelExtents& extents, int i, int count) {
    return i < count ? first + i * channel_stride(extents) : first;
}

template <typename AnySums>
__device__ __forceinline__ void clear(AnySums& sums) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = 0;
}

/// The voxels of the cell in slice d of src; what lies outside counts as zero.
__device__ __forceinline__ void load_factors(Factors& factors, const VoxelExtents& extents, const Channels& channels,
                                             const Place& place, Offset d) {
    constexpr int kWide = kChannelsLast ? 1 : kCellW; // voxels in one access
#pragma unroll
    for (int a = 0; a < kSrcBlock; ++a) {
        const Storage* const first = channel(place.src, extents, a, channels.src_count);
#pragma unroll
        for (int at = 0; at < kVolume; at += kWide) {
            const Offset h = place.h * kCellH + at / kCellW, w = place.w * kCellW + at % kCellW;
            const bool exists = place.window.exists && is_index(h, extents.h) && is_index(w, extents.w);
            const Storage* const voxel =
                first + ((d * static_cast<Offset>(extents.h) + h) * static_cast<Offset>(extents.w) + w) * kSrcStride;
            if constexpr (kWide > 1) {
                const Pack<Storage, kWide> pack = load_readonly_if<kWide>(exists, voxel);
#pragma unroll
                for (int i = 0; i < kWide; ++i) factors[a][at + i].elements[0] = pack.elements[i];
            } else {
                factors[a][at] = load_readonly_if<kPack>(exists, voxel);
            }
        }
    }
}

/// The voxels of a window's slice from V on; `sums` are those of the first channel of src.
template <int V = 0>
__device__ __forceinline__ void multiply_slice(Compute* sums, const Voxel (&voxels)[kSlice], const Factors& factors) {
    if constexpr (V < kSlice) {
        Compute values[kPack];
        to_compute(voxels[V], values);
#pragma unroll
        for (int use = kUseBegin[V]; use < kUseBegin[V + 1]; ++use) {
#pragma unroll
            for (int a = 0; a < kSrcBlock; ++a) {
                Compute met[kPack];
                to_compute(factors[a][kUseOutput[use]], met);
#pragma unroll
                for (int i = 0; i < kPack; ++i)
                    sums[(a * kDstBlock * kPack + i) * kPlaneTaps + kUseTap[use]] += values[i] * met[i];
            }
        }
        multiply_slice<V + 1>(sums, voxels, factors);
    }
}

// ---- The bias ----

// Voxels of dst that belong to a cell along each dimension. The last cell has all that are left, too, so that every
// voxel belongs to one cell, whether taps reach it or not.
constexpr int kOwnD = kInStrideD, kOwnH = kCellH * kInStrideH, kOwnW = kCellW * kInStrideW;

template <typename Shift, int kCount>
constexpr bool covers(const Shift (&shifts)[kCount], int own) {
    int found = 0;
    for (int i = 0; i < kCount; ++i) found += shifts[i] >= 0 && shifts[i] < own ? 1 : 0;
    return found == own;
}
constexpr bool kWindowHasOwn = covers(kShiftD, kOwnD) && covers(kShiftH, kOwnH) && covers(kShiftW, kOwnW);

/// Whether the m-th of `count` cells has more voxels along a dimension than its own.
__device__ __forceinline__ bool has_more(Offset m, int64_t count, int own, int64_t extent) {
    return m + 1 == static_cast<Offset>(count) && extent > count * own;
}

/// Adds the cell's own voxels in a slice of its window.
__device__ __forceinline__ void add_own(Compute* sums, const Voxel (&voxels)[kSlice]) {
    Compute share[kPack] = {};
#pragma unroll
    for (int v = 0; v < kSlice; ++v) {
        const auto h = kShiftH[v / kShiftsW], w = kShiftW[v % kShiftsW];
        if (h < 0 || h >= kOwnH || w < 0 || w >= kOwnW) continue;
        Compute values[kPack];
        to_compute(voxels[v], values);
#pragma unroll
        for (int i = 0; i < kPack; ++i) share[i] += values[i];
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] += share[i];
}

/// Indexes of dst that belong to the m-th of `count` cells.
struct Share {
    Offset first, end;

    __device__ __forceinline__ Share(Offset m, int64_t count, int own, int64_t extent) {
        first = m * own;
        const Offset all = static_cast<Offset>(extent);
        end = m + 1 < static_cast<Offset>(count) && first + own < all ? first + own : all;
    }
};

/// All voxels of dst that belong to a cell, a part of their rows for each tap along D. Where windows have them, that is
/// left to cells with more than their own.
__device__ __forceinline__ void add_bias(Compute* sums, const CellBwdWeightArguments& args, const Channels& channels,
                                         const Place& place, Offset d, int tap_d) {
    const VoxelExtents& extents = args.dst_extents;
    const Share slices(d, args.src_extents.d, kOwnD, extents.d);
    const Share rows(place.h, args.cut.cells_h, kOwnH, extents.h);
    const Share columns(place.w, args.cut.cells_w, kOwnW, extents.w);
    constexpr int kWide = kPack > 1 ? kPack : kVector; // in one access: channels or voxels
    Compute share[kBiasSums] = {};
#pragma unroll 1
    for (Offset h = rows.first + tap_d; h < rows.end; h += kTapsD) {
#pragma unroll 1
        for (Offset slice = slices.first; slice < slices.end; ++slice) {
            const Offset row = (slice * static_cast<Offset>(extents.h) + h) * static_cast<Offset>(extents.w);
#pragma unroll 1
            for (Offset w = columns.first; w < columns.end; w += kVector) {
#pragma unroll
                for (int b = 0; b < kDstBlock; ++b) {
                    const Storage* const voxel =
                        channel(place.grad_dst, extents, b, channels.dst_count) + (row + w) * kDstStride;
                    Compute values[kWide];
                    to_compute(load_readonly_if<kWide>(true, voxel), values);
#pragma unroll
                    for (int i = 0; i < kWide; ++i) share[b * kPack + i % kPack] += values[i];
                }
            }
        }
    }
#pragma unroll
    for (int b = 0; b < kBiasSums; ++b) sums[b] += share[b];
}

// ---- The walk ----

/// Adds the products of a cell in slice d of src, and its part of the bias.
__device__ __forceinline__ void add_cell(Compute* sums, const CellBwdWeightArguments& args, const Channels& channels,
                                         const Place& place, Offset d, int tap_d) {
    const Offset slice = d * kInStrideD + kShiftD[tap_d];
    const bool sums_bias = args.sums_bias != 0 && channels.sums_bias();
    const bool has_own =
        kWindowHasOwn && !place.has_more && !has_more(d, args.src_extents.d, kOwnD, args.dst_extents.d);
    const bool sums_own = sums_bias && has_own && kShiftD[tap_d] >= 0 && kShiftD[tap_d] < kOwnD;
    if (is_index(slice, args.dst_extents.d)) {
        Factors factors;
        load_factors(factors, args.src_extents, channels, place, d);
#pragma unroll
        for (int b = 0; b < kDstBlock; ++b) {
            Voxel voxels[kSlice];
            load_slice<kDstStride>(voxels, args.dst_extents, place.window, slice,
                                   channel(place.grad_dst, args.dst_extents, b, channels.dst_count));
            multiply_slice(sums + b * kPack * kPlaneTaps, voxels, factors);
            if (sums_own) add_own(sums + kWeightSums + b * kPack, voxels);
        }
    }
    if (sums_bias && !has_own && place.window.exists) add_bias(sums + kWeightSums, args, channels, place, d, tap_d);
}

/// The tiles of a split, which run along D for a block of cells, then for the next block or sample. In fp32 few slices
/// at a time are summed by themselves, which keeps chains short.
__device__ __forceinline__ void sum_tiles(Totals& totals, const CellBwdWeightArguments& args, const Channels& channels,
                                          int64_t split, const Part& part) {
    const int64_t slices = args.src_extents.d;
    int64_t tile = split * args.cut.split_tiles;
    const int64_t end = min(tile + args.cut.split_tiles, args.cut.tiles);
    while (tile < end) {
        const int64_t column = tile / slices, n = column / args.cut.blocks;
        const Offset cell = static_cast<Offset>(column % args.cut.blocks) * kCells + part.cell;
        const Offset cells_w = static_cast<Offset>(args.cut.cells_w);
        const Offset h = cell / cells_w, w = cell % cells_w;
        const Place place = {h,
                             w,
                             {0, h * kOwnH, w * kOwnW, h < static_cast<Offset>(args.cut.cells_h)},
                             has_more(h, args.cut.cells_h, kOwnH, args.dst_extents.h) ||
                                 has_more(w, args.cut.cells_w, kOwnW, args.dst_extents.w),
                             static_cast<const Storage*>(args.src) + n * kAllSrcChannels * volume(args.src_extents) +
                                 channels.src * channel_stride(args.src_extents),
                             static_cast<const Storage*>(args.grad_dst) +
                                 n * kAllDstChannels * volume(args.dst_extents) +
                                 channels.dst * channel_stride(args.dst_extents)};
        Offset d = static_cast<Offset>(tile - column * slices);
        tile = min((column + 1) * slices, end);
        const Offset last = static_cast<Offset>(tile - column * slices);
        while (d < last) {
            if constexpr (kSplitsChains) {
                Sums sums;
                clear(sums);
                const Offset chain_end = d + kChain < last ? d + kChain : last;
#pragma unroll 1
                for (; d < chain_end; ++d) add_cell(sums, args, channels, place, d, part.tap_d);
#pragma unroll
                for (int i = 0; i < kSums; ++i) totals[i] += sums[i];
            } else {
                add_cell(totals.values, args, channels, place, d++, part.tap_d);
            }
        }
    }
}

// ---- The sums of a CTA ----

constexpr int kRows = kTapsD * kLanes;
constexpr int kPitch = kCells | 1; // odd, so that rows begin in different banks
constexpr int kShared = 16 * 1024 / (kRows * kPitch * static_cast<int>(sizeof(Compute)));
constexpr int kTogether = kShared < 1 ? 1 : kShared < kSums ? kShared : kSums; // sums that are added at a time

__device__ __forceinline__ Compute sum_row(const Compute* row) {
    Compute sum = 0;
    for (int cell = 0; cell < kCells; ++cell) sum += row[cell];
    return sum;
}

/// Stores the sum `index` of a tap along D and a lane, of which `row` has those of all cells. Those of the next tap
/// follow kLanes rows later.
__device__ __forceinline__ void store_partial(Compute* partials, int64_t block, int index, int tap_d, int lane,
                                              const Compute* row) {
    const Channels channels(block, lane);
    if (index < kWeightSums) {
        const int pair = index / kPlaneTaps, i = pair % kPack, a = pair / kPack / kDstBlock,
                  b = pair / kPack % kDstBlock;
        if (a >= channels.src_count || b >= channels.dst_count) return;
        const int64_t kernel =
            int64_t{1} * (channels.src + a + i) * kDstChannels + (channels.dst + b + i) % kDstChannels;
        partials[kernel * kTaps + tap_d * kPlaneTaps + index % kPlaneTaps] = sum_row(row);
    } else if (tap_d == 0 && channels.sums_bias()) {
        const int b = index - kWeightSums;
        if (b / kPack >= channels.dst_count) return;
        Compute sum = 0;
        for (int each = 0; each < kTapsD; ++each) sum += sum_row(row + each * kLanes * kPitch);
        partials[kWeights + channels.dst + b] = sum;
    }
}

/// Adds the threads' sums in a fixed order.
__device__ __forceinline__ void store_partials(Compute* partials, Totals& totals, int64_t block, const Part& part) {
    __shared__ Compute shares[kTogether * kRows * kPitch];
#pragma unroll
    for (int first = 0; first < kSums; first += kTogether) {
        __syncthreads(); // the shares before these have been read
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (first + i < kSums)
                shares[((i * kTapsD + part.tap_d) * kLanes + part.lane) * kPitch + part.cell] = totals[first + i];
        }
        __syncthreads();
        const int count = kSums - first < kTogether ? kSums - first : kTogether;
        for (int row = threadIdx.x; row < count * kRows; row += kThreads)
            store_partial(partials, block, first + row / kRows, row % kRows / kLanes, row % kLanes,
                          shares + row * kPitch);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kCtas)
    cells_bwd_weight(const __grid_constant__ CellBwdWeightArguments args) {
    const int thread = threadIdx.x;
    const Part part = {thread / kTapThreads, thread % kTapThreads / kLanes, thread % kLanes};
    for (int64_t item = blockIdx.x; item < args.cut.items; item += gridDim.x) {
        const int64_t split = item / kAllBlocks, block = item % kAllBlocks;
        Totals totals;
        clear(totals);
        sum_tiles(totals, args, Channels(block, part.lane), split, part);
        Compute* const partials = static_cast<Compute*>(args.partials) + split * (kWeights + kAllDstChannels);
        store_partials(partials, totals, block, part);
    }
}
