// bwd_weight on tensor cores, in the reduced form: grad_weight[ci, co, j] sums src[n, ci, i] · grad_dst[n, co, s·i − p +
// j·d] over all images n and voxels i.
//
// A CTA owns some channels of src and of grad_dst, a block of taps and a split: a range of the tiles of all images. A
// tile is a box of src voxels with the box of grad_dst that these meet through the taps. All taps multiply the same
// staged tile: of src as it is, of grad_dst from another position. While a tile is multiplied, the next one is copied.
//
// Voxels outside of a tensor are staged as zeros, which add nothing.
#include "reduction/constants.cuh"
#include "reduction/multiply.cuh"
#include "reduction/staging.cuh"

extern __shared__ __align__(128) unsigned char shared[];

namespace {

/// What a CTA owns.
struct Item {
    int group, src_first, dst_first;    // channels of the group
    int tap_d, tap_h, tap_w;            // the first of the block
    int64_t split, first_tile, end_tile;

    __device__ __forceinline__ explicit Item(const ReductionArguments& args) {
        int64_t rest = blockIdx.x;
        const auto next = [&rest](int count) {
            const int digit = static_cast<int>(rest % count);
            rest /= count;
            return digit;
        };
        dst_first = next(kDstTiles) * kTileDstChannels;
        src_first = next(kSrcTiles) * kTileSrcChannels;
        tap_w = next(kTapBlocksW) * kBlockTapsW;
        tap_h = next(kTapBlocksH) * kBlockTapsH;
        tap_d = next(kTapBlocksD) * kBlockTapsD;
        group = next(kGroups);
        split = rest;
        first_tile = args.all_tiles * split / args.splits;
        end_tile = args.all_tiles * (split + 1) / args.splits;
    }
};

/// The first element of a channel, counted over all groups, of an image.
template <typename Tensor>
__device__ __forceinline__ int64_t first_element(int64_t image, int channel, int64_t volume) {
    return kChannelsLast ? image * volume * Tensor::kAllChannels + channel
                         : (image * Tensor::kAllChannels + channel) * volume;
}

__device__ __forceinline__ Place place_of(const void* tensor, const VoxelExtents& extents) {
    return {static_cast<const unsigned char*>(tensor), 0, 0, 0, 0, 0, static_cast<int>(extents.d),
            static_cast<int>(extents.h), static_cast<int>(extents.w)};
}

/// Both boxes of a tile.
struct Tile {
    Place src, dst;

    __device__ __forceinline__ Tile(const ReductionArguments& args, const Item& item, int64_t index)
        : src(place_of(args.src, args.src_extents)), dst(place_of(args.grad_dst, args.dst_extents)) {
        src.w = static_cast<int>(index % args.tiles.w) * kBoxW;
        index /= args.tiles.w;
        src.h = static_cast<int>(index % args.tiles.h) * kBoxH;
        index /= args.tiles.h;
        src.d = static_cast<int>(index % args.tiles.d) * kBoxD;
        const int64_t image = index / args.tiles.d;
        dst.d = src.d * kStrideD - kPaddingD + item.tap_d * kDilationD;
        dst.h = src.h * kStrideH - kPaddingH + item.tap_h * kDilationH;
        dst.w = src.w * kStrideW - kPaddingW + item.tap_w * kDilationW;
        src.first = first_element<Src>(image, item.group * kSrcChannels + item.src_first, src.volume());
        dst.first = first_element<Dst>(image, item.group * kDstChannels + item.dst_first, dst.volume());
        src.channels = kSrcChannels - item.src_first;
        dst.channels = kDstChannels - item.dst_first;
        if (src.channels > kTileSrcChannels) src.channels = kTileSrcChannels;
        if (dst.channels > kTileDstChannels) dst.channels = kTileDstChannels;
    }

    __device__ __forceinline__ void copy(uint32_t shared_begin) const {
        copy_runs<Src>(shared_begin + kRawSrcAt, src);
        copy_runs<Dst>(shared_begin + kRawDstAt, dst);
        ptx::copy_async_commit();
    }

    __device__ __forceinline__ void lay_out_all(uint32_t shared_begin) const {
        lay_out<Src>(shared_begin + kSrcAt, shared_begin + kRawSrcAt, src);
        lay_out<Dst>(shared_begin + kDstAt, shared_begin + kRawDstAt, dst);
    }
};

__device__ __forceinline__ void multiply_split(Sums& sums, const ReductionArguments& args, const Item& item,
                                               uint32_t shared_begin) {
    if (item.first_tile == item.end_tile) return;
    prepare_shared(shared_begin);
    Tile(args, item, item.first_tile).copy(shared_begin);
    __syncthreads(); // the readers take offsets from what was prepared
    const Reader reader(shared_begin);
#pragma unroll 1
    for (int64_t tile = item.first_tile; tile < item.end_tile; ++tile) {
        ptx::copy_async_wait<0>();
        __syncthreads(); // the runs are there, and nobody multiplies the tile before
        Tile(args, item, tile).lay_out_all(shared_begin);
        __syncthreads(); // the tile is there, and nobody reads the runs
        if (tile + 1 < item.end_tile) Tile(args, item, tile + 1).copy(shared_begin);
        multiply_tile(sums, reader);
    }
}

/// grad_weight is (src channels, dst channels of the group, taps). Sums of splits have their taps first and channels
/// last, an even number of them, so that the lanes of a warp fill sectors.
__device__ __forceinline__ void store_sum(const ReductionArguments& args, const Item& item, int src_channel,
                                          int dst_channel, int64_t tap, float sum) {
    const int64_t row = int64_t{item.group} * kSrcChannels + src_channel;
    if constexpr (kStoresSplits) {
        constexpr int64_t kRow = (kDstChannels + 1) / 2 * 2, kTapSums = kGroups * kSrcChannels * kRow;
        constexpr int64_t kTaps = int64_t{1} * kKernelD * kKernelH * kKernelW;
        static_cast<float*>(args.sums)[(item.split * kTaps + tap) * kTapSums + row * kRow + dst_channel] = sum;
    } else {
        constexpr int64_t kTaps = int64_t{1} * kKernelD * kKernelH * kKernelW;
        store(static_cast<Storage*>(args.sums) + (row * kDstChannels + dst_channel) * kTaps + tap, sum);
    }
}

__device__ __forceinline__ void store_sums(const ReductionArguments& args, const Item& item, const Sums& sums) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < kWarpColumns; ++i) {
        const Column column(i);
        const int tap_d = item.tap_d + column.tap_d(), tap_h = item.tap_h + column.tap_h(),
                  tap_w = item.tap_w + column.tap_w();
        if (column.tap < 0 || tap_d >= kKernelD || tap_h >= kKernelH || tap_w >= kKernelW) continue;
        const int64_t tap = (int64_t{tap_d} * kKernelH + tap_h) * kKernelW + tap_w;
#pragma unroll
        for (int m = 0; m < kWarpRows; ++m)
#pragma unroll
            for (int value = 0; value < 4; ++value) {
                const int src_channel = item.src_first + (row_warp() * kWarpRows + m) * 16 + value / 2 * 8 + g;
                const int dst_channel = item.dst_first + column.channel + 2 * t + value % 2;
                if (src_channel < kSrcChannels && dst_channel < kDstChannels)
                    store_sum(args, item, src_channel, dst_channel, tap, sums.values[m][i][value]);
            }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kCtas)
    reduction(const __grid_constant__ ReductionArguments args) {
    const Item item(args);
    Sums sums = {};
    multiply_split(sums, args, item, ptx::shared_address(shared));
    store_sums(args, item, sums);
}
