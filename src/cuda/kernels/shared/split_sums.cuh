#pragma once

// What the kernel that adds the sums of all splits is launched with. Host and device compile this file.
#include "base/types.cuh"

namespace tconv3d::cuda {

/// A tensor whose sums were split. Each split has all sums, in the order of tap, row and column; the tensor has them in
/// the order of row, column and tap. With no taps, rows or columns there is nothing to add.
struct SplitSums {
    const void* sums;
    void* results;
    int64_t splits;
    int64_t split_pitch; ///< sums from one split to the next
    int64_t taps;
    int64_t rows;
    int64_t columns;
    int64_t row_pitch; ///< sums from one row to the next

    constexpr int64_t count() const { return taps * rows * row_pitch; }

    /// Threads that share the splits of a sum: a power of two, one where a thread has few of them.
    constexpr int64_t sharers() const {
        constexpr int64_t kFew = 8, kMost = 16;
        int64_t threads = 1;
        while (threads < kMost && threads * kFew < splits) threads *= 2;
        return threads;
    }
};

struct AddSplitsArguments {
    SplitSums weight;
    SplitSums bias;
};

} // namespace tconv3d::cuda
