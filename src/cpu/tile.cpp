#include "tile.hpp"

#include <algorithm>

#include "../core/checked.hpp"

namespace tconv3d::cpu {

namespace {

constexpr int64_t kCacheLineElements = 16;
/// Lanes that a register block may read or write past the run.
constexpr int64_t kOverrun = 64;

/// Positions from one line (row, slice) to the next: the zeros after a line also serve as the zeros before its
/// successor.
int64_t shared_pitch(const Axis& axis) {
    const int64_t span = axis.q_count() + axis.spread();
    const int64_t extent = axis.planes.empty() ? 0 : axis.plane_extent(axis.planes.front());
    const int64_t zeros_before = std::clamp<int64_t>(-axis.shift_min, 0, span);
    const int64_t zeros_after = std::clamp<int64_t>(axis.shift_min + span - extent, 0, span);
    return std::max(span - std::min(zeros_before, zeros_after), axis.q_count());
}

void set_extents(Tile& tile, const IndexMap& map, int64_t d, int64_t h) {
    const auto& [axis_d, axis_h, axis_w] = map.axes;
    tile.d = d;
    tile.h = h;
    tile.columns = axis_w.q_count() + axis_w.spread();
    tile.rows = h + axis_h.spread();
    tile.slices = d + axis_d.spread();
    tile.row_pitch = shared_pitch(axis_w);
    tile.slice_pitch = h == axis_h.q_count() ? shared_pitch(axis_h) : tile.rows;
    const int64_t last_row = (tile.slices - 1) * tile.slice_pitch + tile.rows - 1;
    tile.plane_pitch = round_up(last_row * tile.row_pitch + tile.columns + kOverrun, kCacheLineElements);
    // An odd number of cache lines, so that the same lane of many channels does not fall into the same cache sets.
    const int64_t lines = map.planes() * tile.plane_pitch / kCacheLineElements;
    tile.channel_pitch = (lines | 1) * kCacheLineElements;
    tile.lanes = ((d - 1) * tile.slice_pitch + h - 1) * tile.row_pitch + axis_w.q_count();
}

int64_t phases_of(const Tile& tile, const IndexMap& map) {
    return tile.row_phases * static_cast<int64_t>(map.axes[2].phases.size());
}

bool is_at_most(Checked elements, int64_t limit) {
    return elements.fits() && elements.value() <= limit;
}

bool has_fitting_slab(const Tile& tile, const TileLimits& limits) {
    return is_at_most(Checked(tile.in_channels) * tile.channel_pitch, limits.slab_elements);
}

bool fits(const Tile& tile, const IndexMap& map, const TileLimits& limits) {
    return has_fitting_slab(tile, limits) &&
           is_at_most(Checked(tile.out_channels) * phases_of(tile, map) * (tile.lanes + kOverrun), limits.sum_elements);
}

int64_t halve(int64_t value, int64_t multiple) {
    return std::max(multiple, round_up((value + 1) / 2, multiple));
}

int64_t tasks(const Tile& tile, const IndexMap& map, const TileCounts& counts) {
    return counts.independent * cuts(counts.out_channels, tile.out_channels) * cuts(map.axes[0].q_count(), tile.d) *
           cuts(map.axes[1].q_count(), tile.h);
}

/// The smallest extents whose run still fills the register block: one row, several rows, or several whole slices.
void set_smallest_extents(Tile& tile, const IndexMap& map, int64_t lanes) {
    const int64_t rows = map.axes[1].q_count();
    set_extents(tile, map, 1, 1);
    const int64_t h = std::min(rows, cuts(lanes, tile.row_pitch));
    set_extents(tile, map, 1, h);
    if (h < rows || tile.lanes >= lanes) return;
    set_extents(tile, map, std::min(map.axes[0].q_count(), cuts(lanes, tile.slice_pitch * tile.row_pitch)), rows);
}

/// Grows rows, then slices, while the tile fits and leaves enough tasks.
void grow_extents(Tile& tile, const IndexMap& map, const TileCounts& counts, const TileLimits& limits) {
    const int64_t rows = map.axes[1].q_count(), slices = map.axes[0].q_count();
    while (tile.h < rows || tile.d < slices) {
        Tile larger = tile;
        if (tile.h < rows) {
            set_extents(larger, map, 1, std::min(rows, tile.h * 2));
        } else {
            set_extents(larger, map, std::min(slices, tile.d * 2), rows);
        }
        if (!fits(larger, map, limits) || tasks(larger, map, counts) < limits.tasks_wanted) return;
        tile = larger;
    }
}

/// Equal cuts instead of a small remainder.
void balance_extents(Tile& tile, const IndexMap& map) {
    const int64_t rows = map.axes[1].q_count(), slices = map.axes[0].q_count();
    const int64_t h = cuts(rows, cuts(rows, tile.h));
    set_extents(tile, map, tile.d > 1 ? cuts(slices, cuts(slices, tile.d)) : 1, h);
}

} // namespace

std::string Tile::str() const {
    return std::to_string(d) + " slices x " + std::to_string(h) + " rows, " + std::to_string(lanes) + " lanes, " +
           std::to_string(in_channels) + " input x " + std::to_string(out_channels) + " output channels";
}

Tile choose_tile(const IndexMap& map, const TileCounts& counts, const TileLimits& limits) {
    Tile tile{};
    tile.in_channels = counts.in_channels;
    tile.out_channels = counts.out_channels;
    tile.row_phases = static_cast<int64_t>(map.axes[0].phases.size() * map.axes[1].phases.size());
    set_smallest_extents(tile, map, limits.lanes_wanted);
    // Give up, in this order, what costs least: sums of many phases at once, many output channels, many input channels.
    while (!fits(tile, map, limits)) {
        const bool slab_too_large = !has_fitting_slab(tile, limits);
        if (slab_too_large && tile.in_channels > limits.channel_block) {
            tile.in_channels = halve(tile.in_channels, limits.channel_block);
        } else if (!slab_too_large && tile.out_channels > 4 * limits.channel_block) {
            tile.out_channels = halve(tile.out_channels, limits.channel_block);
        } else if (!slab_too_large && tile.row_phases > 1) {
            tile.row_phases = halve(tile.row_phases, 1);
        } else if (!slab_too_large && tile.out_channels > limits.channel_block) {
            tile.out_channels = halve(tile.out_channels, limits.channel_block);
        } else if (tile.h > 1) {
            set_extents(tile, map, 1, (tile.h + 1) / 2);
        } else {
            break; // one row of one register block: the least there is
        }
    }
    grow_extents(tile, map, counts, limits);
    // Every cut of the output channels packs the same slab again: only wide ones are worth more tasks.
    while (tasks(tile, map, counts) < limits.tasks_wanted && tile.out_channels >= 32 * limits.channel_block) {
        tile.out_channels = halve(tile.out_channels, limits.channel_block);
    }
    balance_extents(tile, map);
    return tile;
}

namespace {

int64_t tap_count(const Axis& axis) {
    int64_t taps = 0;
    for (const AxisPhase& phase : axis.phases) taps += static_cast<int64_t>(phase.taps.size());
    return taps;
}

SlabTap slab_tap(const IndexMap& map, const Tile& tile, const std::array<const AxisTap*, 3>& taps) {
    const auto& [axis_d, axis_h, axis_w] = map.axes;
    const auto& [d, h, w] = taps;
    const int64_t planes_h = static_cast<int64_t>(axis_h.planes.size());
    const int64_t planes_w = static_cast<int64_t>(axis_w.planes.size());
    const int64_t plane = (axis_d.plane_index(d->plane) * planes_h + axis_h.plane_index(h->plane)) * planes_w +
                          axis_w.plane_index(w->plane);
    const int64_t row = (d->shift - axis_d.shift_min) * tile.slice_pitch + h->shift - axis_h.shift_min;
    return {(d->tap * tap_count(axis_h) + h->tap) * tap_count(axis_w) + w->tap,
            plane * tile.plane_pitch + row * tile.row_pitch + w->shift - axis_w.shift_min,
            {-d->shift, -h->shift},
            {axis_d.plane_extent(d->plane) - d->shift, axis_h.plane_extent(h->plane) - h->shift}};
}

void add_taps(SlabPhase& phase, const IndexMap& map, const Tile& tile) {
    for (const AxisTap& d : phase.axes[0]->taps) {
        for (const AxisTap& h : phase.axes[1]->taps) {
            for (const AxisTap& w : phase.axes[2]->taps) phase.taps.push_back(slab_tap(map, tile, {&d, &h, &w}));
        }
    }
}

} // namespace

std::vector<SlabPhase> slab_phases(const IndexMap& map, const Tile& tile) {
    const auto& [axis_d, axis_h, axis_w] = map.axes;
    const int64_t count_h = static_cast<int64_t>(axis_h.phases.size());
    const int64_t count_w = static_cast<int64_t>(axis_w.phases.size());
    std::vector<SlabPhase> phases;
    int64_t first_tap = 0;
    for (int64_t i = 0; i < map.phases(); ++i) {
        const std::array<int64_t, 3> r = {i / (count_h * count_w), i / count_w % count_h, i % count_w};
        SlabPhase phase{{}, r, first_tap, {}};
        for (size_t axis = 0; axis < 3; ++axis) {
            phase.axes[axis] = &map.axes[axis].phases[static_cast<size_t>(r[axis])];
        }
        add_taps(phase, map, tile);
        first_tap += static_cast<int64_t>(phase.taps.size());
        phases.push_back(std::move(phase));
    }
    return phases;
}

} // namespace tconv3d::cpu
