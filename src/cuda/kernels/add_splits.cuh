// The second pass of bwd_weight: adds the sums of all splits in double, in a fixed order, rounds once and stores.
//
// A CTA is a grid of sharers x columns of threads. A column has one sum: each of its sharers adds every sharers-th
// split, and then the shares are added.
#include "base/storage.cuh"
#include "finish/thread_sums.cuh"
#include "shared/split_sums.cuh"

namespace {

using namespace tconv3d::cuda;

/// The share of the sum `index`: the splits `first`, first + step, …
__device__ __forceinline__ double sum_share(const SplitSums& given, int64_t index, int64_t first, int64_t step) {
    double sum = 0;
#pragma unroll 8
    for (int64_t split = first; split < given.splits; split += step)
        sum += static_cast<const Compute*>(given.sums)[split * given.split_pitch + index];
    return sum;
}

__device__ __forceinline__ void store_sum(const SplitSums& given, int64_t index, double sum) {
    const int64_t column = index % given.row_pitch, rows = index / given.row_pitch;
    const int64_t row = rows % given.rows, tap = rows / given.rows;
    if (column < given.columns)
        store(static_cast<Storage*>(given.results) + (row * given.columns + column) * given.taps + tap,
              static_cast<Compute>(sum));
}

__device__ __forceinline__ void add_splits_of(const SplitSums& given) {
    const int sharers = static_cast<int>(given.sharers()), columns = kThreads / sharers;
    const int column = static_cast<int>(threadIdx.x) % columns, sharer = static_cast<int>(threadIdx.x) / columns;
    const int64_t count = given.count();
    for (int64_t first = int64_t{1} * blockIdx.x * columns; first < count; first += int64_t{1} * gridDim.x * columns) {
        const int64_t index = first + column;
        const double share = index < count ? sum_share(given, index, sharer, sharers) : 0;
        const double sum = sum_threads(share, sharers, columns);
        if (sharer == 0 && index < count) store_sum(given, index, sum);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1) add_splits(const __grid_constant__ AddSplitsArguments args) {
    add_splits_of(args.weight);
    add_splits_of(args.bias);
}
