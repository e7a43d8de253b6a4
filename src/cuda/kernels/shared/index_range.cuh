#pragma once

// Host and device compile this file.
#include "base/types.cuh"

namespace tconv3d::cuda {

/// The indexes `first`, `first + 1`, …, `count` of them.
struct IndexRange {
    int64_t first;
    int64_t count;
};

/// The indexes x below `extent` with 0 ≤ step · x + offset < limit, for a positive step.
constexpr IndexRange indexes_within(int64_t step, int64_t offset, int64_t extent, int64_t limit) {
    if (offset >= limit) return {0, 0};
    const int64_t first = offset < 0 ? (-offset - 1) / step + 1 : 0; // ⌈−offset / step⌉
    const int64_t most = (limit - 1 - offset) / step + 1;
    const int64_t end = most < extent ? most : extent;
    return {first, end > first ? end - first : 0};
}

} // namespace tconv3d::cuda
