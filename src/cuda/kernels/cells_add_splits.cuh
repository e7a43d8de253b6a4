// The second half of bwd_weight by cells: adds the partial sums of all splits, in a fixed order, and rounds. A CTA has
// kAddColumns neighbouring elements at a time; each of its rows adds every kRows-th split, then one adds the rows.
#include "base/storage.cuh"
#include "shared/cells.cuh"

namespace {
using tconv3d::cuda::kAddColumns;
constexpr int kRows = kThreads / kAddColumns;
} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    cells_add_splits(const __grid_constant__ tconv3d::cuda::AddSplitsArguments args) {
    __shared__ double shares[kRows][kAddColumns];
    const int column = threadIdx.x % kAddColumns, row = threadIdx.x / kAddColumns;
    const int64_t pitch = args.weights + args.channels;
    const int64_t elements = args.grad_bias != nullptr ? pitch : args.weights;
    for (int64_t first = int64_t{1} * blockIdx.x * kAddColumns; first < elements;
         first += int64_t{1} * gridDim.x * kAddColumns) {
        const int64_t index = first + column;
        double sum = 0;
        if (index < elements) {
#pragma unroll 8
            for (int64_t split = row; split < args.splits; split += kRows)
                sum += static_cast<const Compute*>(args.partials)[split * pitch + index];
        }
        shares[row][column] = sum;
        __syncthreads();
        if (row == 0 && index < elements) {
            for (int other = 1; other < kRows; ++other) sum += shares[other][column];
            Storage* const result = index < args.weights
                                        ? static_cast<Storage*>(args.grad_weight) + index
                                        : static_cast<Storage*>(args.grad_bias) + (index - args.weights);
            store(result, static_cast<Compute>(sum));
        }
        __syncthreads(); // the next elements overwrite the shares
    }
}
