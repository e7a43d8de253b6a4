#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tconv3d/phases.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cpu {

/// A tap along one dimension: the output q reads plane `remainder` at `q + shift`.
struct WalkTap {
    int64_t tap;
    int64_t remainder;
    int64_t shift;
};

/// Outputs `o = out_stride * q + r - out_padding` of one phase r, for q_first <= q < q_first + count.
struct WalkPhase {
    int64_t q_first;
    int64_t count;
    std::vector<WalkTap> taps;
};

/// One dimension of a gather. The input is read as `in_stride` planes: plane b holds the elements `in_stride * u + b`.
struct WalkDimension {
    int64_t in_extent;
    int64_t out_extent;
    int64_t in_stride;
    int64_t out_stride;
    int64_t out_padding;
    std::vector<WalkPhase> phases;
    std::vector<int64_t> remainders; ///< the planes that some tap reads
    int64_t q_begin;                 ///< the range of q that holds all outputs of all phases
    int64_t q_end;
    int64_t shift_min; ///< over all taps; both 0 when there is no tap
    int64_t shift_max;

    int64_t q_count() const { return q_end - q_begin; }
    int64_t spread() const { return shift_max - shift_min; }
    /// Elements of plane `remainder`.
    int64_t plane_extent(int64_t remainder) const;
    int64_t plane_index(int64_t remainder) const;
    int64_t output(int64_t r, int64_t q) const { return out_stride * q + r - out_padding; }
};

/// fwd and bwd_data as one computation: unit-stride correlations from input planes to output phases (docs/math.md).
/// fwd has one input plane and stride³ output phases, bwd_data the reverse. bwd_weight walks as bwd_data does.
struct Walk {
    std::array<WalkDimension, 3> dims;

    explicit Walk(const Problem& problem);
    int64_t planes() const;
    int64_t phases() const;
};

} // namespace tconv3d::cpu
