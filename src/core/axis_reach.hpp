#pragma once

#include <array>
#include <cstdint>

#include "shared/tap_progression.cuh"
#include "tconv3d/problem.hpp"

namespace tconv3d {

using cuda::IndexRange;
using cuda::TapRange;

/// Which src indexes and taps meet inside dst along one dimension: 0 <= stride · i − padding + tap · dilation < dst.
/// Everything is computed from the numbers alone, without a list of taps, outputs or phases, and fits in 64 bits for
/// every valid problem: no index is beyond dst with its padding, which Problem::dst() checks.
struct AxisReach {
    int64_t src;
    int64_t dst;
    int64_t kernel;
    int64_t stride;
    int64_t padding;
    int64_t dilation;

    /// Where src index i goes by a tap, inside dst or not.
    int64_t output(int64_t i, int64_t tap) const { return stride * i + dilation * tap - padding; }

    /// The src indexes that a tap takes into the outputs from `first` to before `end`.
    IndexRange sources(int64_t tap, int64_t first, int64_t end) const;
    IndexRange sources(int64_t tap) const { return sources(tap, 0, dst); }

    /// The taps from the first to the last that takes something into dst, and perhaps some at either end that do not
    /// where dst has fewer outputs than a stride.
    IndexRange reaching_taps() const {
        return AxisReach{kernel, dst, src, dilation, padding, stride}.reaching_sources(0, dst);
    }
    /// The src indexes that some tap takes into the outputs from `first` to before `end`, in the same way.
    IndexRange reaching_sources(int64_t first, int64_t end) const;
    IndexRange reaching_sources() const { return reaching_sources(0, dst); }

    /// How many pairs of a src index and a tap meet inside dst. Takes as many steps as Euclid's algorithm.
    double pairs() const;
};

std::array<AxisReach, 3> axis_reaches(const Problem& problem);

} // namespace tconv3d
