// bwd_weight by its definition: grad_weight[ci, co, j] sums src[n, ci, i] · grad_dst[n, co, s·i − p + j·d] over all
// samples n and the voxels i that tap j keeps inside dst, and grad_bias[co] sums grad_dst[n, co, o].
//
// A CTA sums the same element of kBlock neighbouring output channels. kLanes threads share a row along W, so that the
// CTA is at kRows rows at a time, which run over all samples. A thread sums its part of a row by itself, which keeps
// chains short, and adds rows in double; then the threads are added in a fixed order.
#include "base/storage.cuh"
#include "shared/direct_arguments.cuh"
#include "shared/index_range.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int64_t kPlaneTaps = int64_t{1} * kKernelH * kKernelW, kTaps = kKernelD * kPlaneTaps;
constexpr int kBlocks = (kDstChannels + kBlock - 1) / kBlock; // of a group
constexpr int kRows = kThreads / kLanes;                      // that a CTA sums at a time

/// A tensor of kChannels channels.
template <int kChannels>
struct Volume {
    static constexpr int64_t kVoxelStride = kChannelsLast ? kChannels : 1;

    const Storage* data;
    const VoxelExtents& extents;

    __device__ __forceinline__ int64_t voxels() const { return extents.d * extents.h * extents.w; }
    __device__ __forceinline__ int64_t channel_stride() const { return kChannelsLast ? 1 : voxels(); }
    /// The element at w = 0 of a row.
    __device__ __forceinline__ const Storage* row(int64_t n, int channel, int64_t d, int64_t h) const {
        return data + n * kChannels * voxels() + channel * channel_stride() +
               (d * extents.h + h) * extents.w * kVoxelStride;
    }
};

using Src = Volume<kGroups * kSrcChannels>;
using Dst = Volume<kGroups * kDstChannels>;

/// Neighbouring output channels of a group: `first` counts over all groups.
struct Channels {
    int first, count;

    /// `block` counts over all groups too.
    __device__ __forceinline__ explicit Channels(int64_t block) {
        const int begin = block % kBlocks * kBlock;
        first = static_cast<int>(block / kBlocks) * kDstChannels + begin;
        count = kDstChannels - begin < kBlock ? kDstChannels - begin : kBlock;
    }
};

/// Calls add(sums, n, d, h) for this thread's rows; d and h lie in the ranges. Each row is summed by itself.
template <typename Add>
__device__ __forceinline__ void sum_rows(double (&totals)[kBlock], int64_t batch, const IndexRange& range_d,
                                         const IndexRange& range_h, const Add& add) {
    const int64_t rows = batch * range_d.count * range_h.count;
    for (int64_t row = threadIdx.x / kLanes; row < rows; row += kRows) {
        const int64_t slice = row / range_h.count;
        Compute sums[kBlock] = {};
        add(sums, slice / range_d.count, range_d.first + slice % range_d.count, range_h.first + row % range_h.count);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) totals[i] += sums[i];
    }
}

/// The sum over all threads of their totals[i], for thread i: kColumns threads add the shares of every kColumns-th
/// thread, then one adds theirs.
__device__ __forceinline__ double sum_threads(const double (&totals)[kBlock]) {
    constexpr int kColumns = 16;
    __shared__ double shares[kBlock][kThreads];
#pragma unroll
    for (int i = 0; i < kBlock; ++i) shares[i][threadIdx.x] = totals[i];
    __syncthreads();
    const int i = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
    if (i < kBlock) {
        for (int thread = column + kColumns; thread < kThreads; thread += kColumns)
            shares[i][column] += shares[i][thread];
    }
    __syncthreads();
    double sum = 0;
    if (threadIdx.x < kBlock) {
        for (int at = 0; at < kColumns; ++at) sum += shares[threadIdx.x][at];
    }
    __syncthreads(); // the next item overwrites the shares
    return sum;
}

/// One tap of the pairs of `ci`, counted over all groups, and the channels.
__device__ __forceinline__ void sum_products(double (&totals)[kBlock], const DirectBwdWeightArguments& args, int ci,
                                             const Channels& channels, int64_t tap) {
    const Src src{static_cast<const Storage*>(args.src), args.src_extents};
    const Dst grad_dst{static_cast<const Storage*>(args.grad_dst), args.dst_extents};
    // Voxel i meets s·i + offset.
    const int64_t offset_d = tap / kPlaneTaps * kDilationD - kPaddingD;
    const int64_t offset_h = tap / kKernelW % kKernelH * kDilationH - kPaddingH;
    const int64_t offset_w = tap % kKernelW * kDilationW - kPaddingW;
    const IndexRange range_d = indexes_within(kStrideD, offset_d, src.extents.d, grad_dst.extents.d);
    const IndexRange range_h = indexes_within(kStrideH, offset_h, src.extents.h, grad_dst.extents.h);
    const IndexRange range_w = indexes_within(kStrideW, offset_w, src.extents.w, grad_dst.extents.w);
    sum_rows(totals, args.batch, range_d, range_h, [&](Compute(&sums)[kBlock], int64_t n, int64_t d, int64_t h) {
        const Storage* const factors = src.row(n, ci, d, h);
        const Storage* const row = grad_dst.row(n, channels.first, kStrideD * d + offset_d, kStrideH * h + offset_h);
        for (int64_t at = threadIdx.x % kLanes; at < range_w.count; at += kLanes) {
            const int64_t w = range_w.first + at;
            const Compute factor = load_readonly(factors + w * Src::kVoxelStride);
            const Storage* const met = row + (kStrideW * w + offset_w) * Dst::kVoxelStride;
#pragma unroll
            for (int i = 0; i < kBlock; ++i) {
                if (i < channels.count) sums[i] += factor * load_readonly(met + i * grad_dst.channel_stride());
            }
        }
    });
}

__device__ __forceinline__ void sum_gradients(double (&totals)[kBlock], const DirectBwdWeightArguments& args,
                                              const Channels& channels) {
    const Dst grad_dst{static_cast<const Storage*>(args.grad_dst), args.dst_extents};
    const VoxelExtents& extents = grad_dst.extents;
    sum_rows(totals, args.batch, {0, extents.d}, {0, extents.h},
             [&](Compute(&sums)[kBlock], int64_t n, int64_t d, int64_t h) {
                 const Storage* const row = grad_dst.row(n, channels.first, d, h);
                 for (int64_t w = threadIdx.x % kLanes; w < extents.w; w += kLanes) {
#pragma unroll
                     for (int i = 0; i < kBlock; ++i) {
                         if (i < channels.count)
                             sums[i] += load_readonly(row + w * Dst::kVoxelStride + i * grad_dst.channel_stride());
                     }
                 }
             });
}

/// Stores the sums of `count` channels, `stride` elements apart.
__device__ __forceinline__ void store_sums(void* results, int64_t first, int64_t stride, const double (&totals)[kBlock],
                                           int count) {
    const auto sum = static_cast<Compute>(sum_threads(totals));
    if (threadIdx.x < count) store(static_cast<Storage*>(results) + first + threadIdx.x * stride, sum);
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    direct_bwd_weight(const __grid_constant__ DirectBwdWeightArguments args) {
    constexpr int64_t kWeights = kTaps * kGroups * kSrcChannels * kBlocks;
    const int64_t items = kWeights + (args.grad_bias != nullptr ? kGroups * kBlocks : 0);
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        double totals[kBlock] = {};
        if (item < kWeights) {
            const int64_t tap = item % kTaps, pair = item / kTaps; // of a channel of src and a block of the group's
            const int ci = static_cast<int>(pair / kBlocks);
            const Channels channels(int64_t{1} * (ci / kSrcChannels) * kBlocks + pair % kBlocks);
            sum_products(totals, args, ci, channels, tap);
            const int64_t co = channels.first % kDstChannels;
            store_sums(args.grad_weight, (int64_t{1} * ci * kDstChannels + co) * kTaps + tap, kTaps, totals,
                       channels.count);
        } else {
            const Channels channels(item - kWeights);
            sum_gradients(totals, args, channels);
            store_sums(args.grad_bias, channels.first, 1, totals, channels.count);
        }
    }
}
