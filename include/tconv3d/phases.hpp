#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tconv3d/problem.hpp"

namespace tconv3d {

/// A tap of a phase: kernel index `tap` reads src index `q + delta`.
struct Tap {
    int64_t tap;
    int64_t delta;
};

/// The outputs `o` with `(o + padding) mod stride == r` along one dimension; `o = stride * q + r - padding`.
struct Phase {
    int64_t q_first;       ///< q of the first output of this phase
    int64_t count;         ///< outputs of this phase; 0 when the output is too short to have one
    std::vector<Tap> taps; ///< in rising order of tap, so in falling order of delta; may be empty
};

/// The transposed convolution along one dimension as `stride` unit-stride correlations (docs/math.md).
struct DimensionPhases {
    int64_t stride;
    int64_t padding;
    int64_t dilation;
    std::vector<Phase> phases; ///< by phase index r = 0 … stride-1

    int64_t output(int64_t r, int64_t q) const { return stride * q + r - padding; }
};

/// A tap seen from src (bwd_data, bwd_weight): src index i meets dst index `stride * (i + shift) + remainder`.
struct Reach {
    int64_t shift;
    int64_t remainder;
};

struct PhaseTable {
    std::array<DimensionPhases, 3> dims;

    explicit PhaseTable(const Problem& problem);
};

/// `stride * i - padding + tap * dilation`, split by the stride; the remainder is never negative.
Reach reach(const DimensionPhases& dim, int64_t tap);

} // namespace tconv3d
