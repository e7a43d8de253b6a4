#pragma once

/// The sum over the `rows` threads that are `columns` apart, for those of row 0, in an order that depends on nothing
/// else. All threads of the CTA call it; a thread's row is threadIdx.x / columns, and those of later rows take no part.
__device__ __forceinline__ double sum_threads(double value, int rows, int columns) {
    __shared__ double shares[kThreads];
    shares[threadIdx.x] = value;
    __syncthreads();
    const int row = static_cast<int>(threadIdx.x) / columns;
    for (int left = rows; left > 1;) {
        const int half = (left + 1) / 2;
        if (row < left - half) shares[threadIdx.x] += shares[threadIdx.x + half * columns];
        left = half;
        __syncthreads();
    }
    const double sum = shares[threadIdx.x];
    __syncthreads(); // the next call overwrites the shares
    return sum;
}
