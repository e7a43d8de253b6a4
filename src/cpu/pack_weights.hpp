#pragma once

#include <cstdint>
#include <vector>

#include "tconv3d/executor.hpp"
#include "tile.hpp"

namespace tconv3d::cpu {

/// Where an element of the weight lies, seen from the correlation: element(group, in, out, tap).
struct WeightView {
    const void* data;
    DType dtype;
    int64_t groups;
    int64_t in_channels;  ///< of a group
    int64_t out_channels; ///< of a group
    int64_t taps;
    int64_t in_stride;
    int64_t out_stride;
};

/// Packed weights are read from front to back: [group][output block][input block][phase][tap][input][output].
/// The blocks at the end are as narrow as the channels that are left.
class PackedWeights {
public:
    PackedWeights(const WeightView& view, int64_t in_block, int64_t out_block);

    int64_t elements() const;
    /// Of the taps of a phase, whose first one has `first_tap` others before it.
    int64_t offset(int64_t group, int64_t out_first, int64_t in_first, int64_t first_tap) const;

    template <typename T>
    void pack(const std::vector<SlabPhase>& phases, Executor& executor, T* packed) const;

    int64_t out_width(int64_t out_first) const;
    int64_t in_width(int64_t in_first) const;

private:
    WeightView view_;
    int64_t in_block_;
    int64_t out_block_;
};

} // namespace tconv3d::cpu
