#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/axis_reach.hpp"
#include "core/cuts.hpp"
#include "kernels.hpp"
#include "slab.hpp"

namespace tconv3d::cpu {

/// What is left of a problem without the taps and the src voxels that meet nothing.
struct ColumnGeometry {
    std::array<AxisReach, 3> axes; ///< d, h, w
    std::array<IndexRange, 3> taps;
    std::array<IndexRange, 3> sources;

    explicit ColumnGeometry(const Problem& problem);

    bool has_products() const;
    int64_t all_taps() const { return taps[0].count * plane_taps(); }
    int64_t plane_taps() const { return taps[1].count * taps[2].count; }
    /// How many taps reach something, and of how many, for explain().
    std::string describe() const;
    /// In the weight of one pair of channels, of a tap counted from the first that reaches anything.
    int64_t tap_index(int64_t d, int64_t h, int64_t w) const;
    /// The src columns of each tap along w.
    std::vector<IndexRange> column_ranges() const;
    /// The src rows of a chunk that a tap along h takes into the output rows from `first` to before `end`.
    IndexRange rows_of(int64_t tap_h, const IndexRange& chunk, int64_t first, int64_t end) const;
};

/// What two ranges have in common.
IndexRange common(const IndexRange& a, const IndexRange& b);

/// Src rows that are multiplied at once: some lanes for the register blocks, and no more than a cache holds.
struct RowChunks {
    static constexpr int64_t kLanesWanted = 1024;

    int64_t rows;       ///< of a chunk
    int64_t lane_pitch; ///< lanes of a chunk in whole vectors, and one more that a block may read past them

    RowChunks(const ColumnGeometry& geometry, int64_t vector_lanes);
};

/// How many of `whole` fit, `each` of them being so large: a multiple of `step` where it can be, at least one.
inline int64_t fitting(int64_t limit, int64_t each, int64_t whole, int64_t step) {
    const int64_t most = std::min(limit / std::max<int64_t>(each, 1), whole);
    return std::max<int64_t>(most >= whole ? most : most / step * step, std::min(step, whole));
}

/// Cuts a run of slices such that there are tasks enough, and no more than an executor hands out in no time.
inline int64_t slices_of_task(int64_t slices) {
    constexpr int64_t kMostParts = 256;
    return std::max<int64_t>(cuts(slices, kMostParts), 1);
}

/// One work item of fwd or bwd_data: some rows of a range of output slices, some channels of one group of one image.
struct ColumnTask {
    int64_t n;
    int64_t group;
    IndexRange channels; ///< in the group
    IndexRange rows;
    IndexRange slices;
};

/// Takes the number of a task apart, the dimension that varies first before the others.
class TaskNumber {
public:
    explicit TaskNumber(int64_t index) : index_(index) {}

    /// A part of a dimension that is cut into such parts.
    IndexRange next(int64_t whole, int64_t part) {
        const int64_t tiles = cuts(whole, part), first = index_ % tiles * part;
        index_ /= tiles;
        return {first, std::min(part, whole - first)};
    }
    /// What is left.
    int64_t rest() const { return index_; }

private:
    int64_t index_;
};

/// Copies a chunk of rows of one src channel in slice d, the columns that reach something, one behind the other.
template <typename T>
void pack_rows(const Kernels<T>& kernels, const TensorView& src, const ColumnGeometry& geometry, int64_t n,
               int64_t channel, int64_t d, const IndexRange& chunk, T* lanes);

/// A chunk of src rows, and the slice of dst that a tap along d takes it to.
struct ColumnPlace {
    int64_t n;
    int64_t out_d;
    IndexRange rows;
};

/// Lays dst beside the src voxels that it meets: lane i of a column is what src voxel i of the chunk goes to by a tap,
/// zero where that is outside of dst.
template <typename T>
class ColumnPacker {
public:
    ColumnPacker(const Kernels<T>& kernels, const TensorView& grad_dst, const ColumnGeometry& geometry);

    /// Some columns of (channel, tap h, tap w), of the channels from `channel` on.
    void pack(const ColumnPlace& place, int64_t channel, const IndexRange& columns, int64_t pitch, T* packed) const;

private:
    void pack_column(const ColumnPlace& place, int64_t channel, int64_t tap_h, int64_t tap_w, T* column) const;

    const Kernels<T>& kernels_;
    const TensorView& grad_dst_;
    const ColumnGeometry& geometry_;
    std::vector<IndexRange> column_ranges_;
};

} // namespace tconv3d::cpu
