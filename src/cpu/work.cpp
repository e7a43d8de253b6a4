#include "work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "columns.hpp"
#include "core/axis_reach.hpp"
#include "core/direction.hpp"

namespace tconv3d::cpu {

namespace {

/// Of AVX-512 in fp32; other instruction sets and types differ by the same factor in both forms.
constexpr double kProductsPerNanosecond = 40;
constexpr double kLanesOfACall = 48;
constexpr double kRowsOfACall = 8;
constexpr double kCall = 15;            ///< nanoseconds of a register block beside its products
constexpr double kDotCall = 60;         ///< the same where a register block ends in sums across lanes
constexpr double kLanesOfAChunk = 1024; ///< that columns have at once
constexpr double kMove = 0.4;           ///< nanoseconds of an element that is packed or added to its place
constexpr double kRow = 10;             ///< the same of a row, beside its elements

/// One dimension of the flattened planes, as IndexMap describes it.
struct PlaneAxis {
    double outputs; ///< q of a phase
    double spread;  ///< between the least and the greatest shift
    double planes;  ///< input planes that are read
    double phases;  ///< output phases, with or without outputs
    double taps;
    double pairs; ///< of an output and a tap that meet something

    double line() const { return outputs + spread; }
};

PlaneAxis plane_axis(const AxisReach& axis, bool fwd) {
    const auto stride = static_cast<double>(axis.stride), taps = static_cast<double>(axis.kernel);
    const double spread = std::floor(static_cast<double>(axis.dilation) * (taps - 1) / stride);
    const auto dst = static_cast<double>(axis.dst);
    if (fwd) return {std::ceil(dst / stride), spread, 1, stride, taps, axis.pairs()};
    const double remainders = stride / static_cast<double>(std::gcd(axis.stride, axis.dilation));
    return {static_cast<double>(axis.src), spread, std::min(taps, remainders), 1, taps, axis.pairs()};
}

using PlaneAxes = std::array<PlaneAxis, 3>;

PlaneAxes plane_axes(const Problem& problem) {
    const std::array<AxisReach, 3> axes = axis_reaches(problem);
    const bool fwd = is_fwd(problem);
    return {plane_axis(axes[0], fwd), plane_axis(axes[1], fwd), plane_axis(axes[2], fwd)};
}

/// How the outputs are cut into tiles.
struct PlaneTiles {
    double count;
    double packing; ///< nanoseconds of one channel, of all tiles

    /// Each has so many elements and so many lanes at most, or a row.
    PlaneTiles(const PlaneAxes& axes, double elements, double lanes) {
        const auto& [d, h, w] = axes;
        const double row = d.planes * h.planes * w.planes * w.line();
        const double most_rows = std::min(elements / (row * (1 + d.spread)) - h.spread, lanes / w.line());
        const double rows = std::clamp(most_rows, 1.0, h.outputs);
        const double most_slices = std::min(elements / (row * h.line()) - d.spread, lanes / (h.line() * w.line()));
        const double slices = rows < h.outputs ? 1 : std::clamp(most_slices, 1.0, d.outputs);
        count = d.outputs / slices * (h.outputs / rows);
        packing =
            count * (slices + d.spread) * (rows + h.spread) * (kMove * row + kRow * d.planes * h.planes * w.planes);
    }
};

/// Products of one pair of channels. Lanes run on from the end of a row into the next, where taps may reach nothing;
/// only register blocks within a row, or within a slice, leave out the taps of the others.
double plane_products(const PlaneAxes& axes, Direction direction) {
    const auto& [d, h, w] = axes;
    if (direction == Direction::bwd_weight) return d.outputs * h.line() * w.line() * d.taps * h.taps * w.taps;
    const bool row = w.line() >= kLanesOfACall, slice = w.line() * h.line() >= kLanesOfACall;
    return (slice ? d.pairs : d.outputs * d.taps) * (row ? h.pairs : h.outputs * h.taps) * w.line() * w.taps;
}

/// Register blocks of bwd_weight: of (dst channel, tap) and of src channels.
double dot_calls(double columns, double rows) {
    constexpr double kColumns = 6, kRows = 4;
    return std::ceil(columns / kColumns) * std::ceil(rows / kRows);
}

double groups(const Problem& problem) {
    return static_cast<double>(problem.batch) * static_cast<double>(problem.groups);
}

} // namespace

double planes_work(const Problem& problem) {
    constexpr double kSlabElements = 128 * 1024, kSumElements = 96 * 1024;
    const PlaneAxes axes = plane_axes(problem);
    const bool reduces = problem.direction == Direction::bwd_weight;
    const auto in = static_cast<double>(reduces ? problem.dst_channels_per_group() : in_channels(problem));
    const auto out = static_cast<double>(reduces ? problem.src_channels_per_group() : out_channels(problem));
    const PlaneTiles tiles(axes, kSlabElements / std::min(in, kRowsOfACall),
                           kSumElements / (std::min(out, kRowsOfACall) * axes[2].phases));
    const double phases = axes[0].phases * axes[1].phases * axes[2].phases;
    const double lanes = std::ceil(axes[0].outputs * axes[1].outputs * axes[2].line() / kLanesOfACall);
    const double dots = tiles.count * dot_calls(in * axes[0].taps * axes[1].taps * axes[2].taps, out);
    const double calls = reduces ? kDotCall * dots : kCall * phases * lanes * std::ceil(out / kRowsOfACall);
    const double products = plane_products(axes, problem.direction) * in * out;
    return groups(problem) * (products / kProductsPerNanosecond + in * tiles.packing + calls);
}

double columns_work(const Problem& problem) {
    const std::array<AxisReach, 3> axes = axis_reaches(with_dimensions_last(problem));
    std::array<double, 3> taps, sources;
    for (size_t i = 0; i < 3; ++i) {
        taps[i] = static_cast<double>(axes[i].reaching_taps().count);
        sources[i] = static_cast<double>(axes[i].reaching_sources().count);
    }
    const bool fwd = is_fwd(problem);
    const auto ci = static_cast<double>(problem.src_channels_per_group());
    const auto co = static_cast<double>(problem.dst_channels_per_group());
    const double slices = axes[0].pairs(), rows = fwd ? axes[1].pairs() : sources[1] * taps[1];
    const double products = slices * rows * sources[2] * taps[2] * co;
    const double lanes = sources[1] * sources[2], columns = taps[1] * taps[2] * co;
    double calls = 0;
    switch (problem.direction) {
    case Direction::fwd:
        calls = kCall * slices * taps[1] * std::ceil(lanes / kLanesOfACall) * std::ceil(taps[2] * co / kRowsOfACall);
        break;
    case Direction::bwd_data:
        calls = kCall * slices * std::ceil(lanes / kLanesOfACall) * std::ceil(ci / kRowsOfACall);
        break;
    case Direction::bwd_weight:
        // Chunks of several slices and images, but at least one for each tap along d, of all images.
        calls = kDotCall * dot_calls(columns, ci) *
                std::max(slices * lanes / kLanesOfAChunk, taps[0] / std::max(static_cast<double>(problem.batch), 1.0));
        break;
    }
    // fwd moves a product of all input channels to its place, the others an element of dst for all channels of src.
    const double moving = kMove * products + kRow * slices * rows * taps[2] * co;
    return groups(problem) * (products * ci / kProductsPerNanosecond + moving + calls);
}

} // namespace tconv3d::cpu
