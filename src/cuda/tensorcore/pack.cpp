#include "cuda/tensorcore/pack.hpp"

#include <algorithm>
#include <vector>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/tensorcore/source.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// The tap (h, w) of each tap of all passes.
void add_plane_taps(Prelude& prelude, const PlaneTables& plane) {
    std::vector<int64_t> tap_h, tap_w;
    for (const Pass& pass : plane.passes) {
        for (const PlaneShift& shift : plane.shifts) {
            for (const PlaneTap& tap : shift.taps) {
                tap_h.push_back(pass.tap_h + tap.tap_h);
                tap_w.push_back(tap.tap_w);
            }
        }
    }
    prelude.array("kTapH", tap_h);
    prelude.array("kTapW", tap_w);
}

/// The blocks of a stage: passes, and their tap groups, one after another; in a group k steps and parts.
void add_blocks(Prelude& prelude, const Problem& problem, const PlaneTables& plane, const Config& config) {
    const std::vector<TapGroup>& groups = plane.tap_groups(config.products.tap_groups);
    std::vector<int64_t> before, index, count;
    for (int64_t pass = 0; pass < plane.pass_count(); ++pass) {
        for (size_t group = 0; group + 1 < groups.size(); ++group) {
            const int64_t first = groups[group].first_tap, taps = groups[group + 1].first_tap - first;
            for (int64_t tap = 0; tap < taps; ++tap) {
                before.push_back(config.input.steps * parts(problem) * (pass * plane.taps() + first));
                index.push_back(tap);
                count.push_back(taps);
            }
        }
    }
    prelude.array("kTapBlock", before);
    prelude.array("kTapIndex", index);
    prelude.array("kTapGroupTaps", count);
}

/// The tap along D that a slot takes while slices of a rotation pass: shift = position - slot, modulo the length of the
/// ring and within its range. -1 where the ring has a gap.
int64_t slot_tap(const DepthTables& depth, size_t phase, int64_t slot, int64_t rotation) {
    const Ring& ring = depth.rings[phase];
    const int64_t position = rotation / depth.planes, plane = rotation % depth.planes;
    const int64_t from_max = ring.shift_max + slot - position;
    const int64_t shift = ring.shift_max - (from_max - floor_div(from_max, ring.length) * ring.length);
    return depth.tap_at(static_cast<int64_t>(phase), shift, plane);
}

/// The tap along D of each slot in each rotation. In the gathered form every tap is a rotation of the only slot.
void add_slot_taps(Prelude& prelude, const DepthTables& depth, const Config& config) {
    std::vector<int64_t> taps;
    const int64_t rotations = config.weights.packing == Packing::one_rotation ? depth.planes : depth.rotations;
    for (int64_t rotation = 0; rotation < rotations; ++rotation) {
        if (config.gathered()) {
            taps.push_back(rotation);
            continue;
        }
        for (size_t phase = 0; phase < depth.rings.size(); ++phase)
            for (int64_t slot = 0; slot < depth.rings[phase].length; ++slot)
                taps.push_back(slot_tap(depth, phase, slot, rotation));
    }
    prelude.array("kSlotTap", taps);
}

} // namespace

PackParcel pack_parcel(const Problem& problem, const Config& config, const Device& device) {
    constexpr int64_t kMostBytes = 40 << 10, kEnoughBytes = 12 << 10;
    const int64_t tiles = cuts(out_channels(problem), config.tile.channels), steps = all_steps(problem, config);
    PackParcel parcel{4 * lane_channels(problem, config), 1, problem.kernel[0], 0, 0};
    // The kernel leaves up to three elements between the taps of one output channel and of the next.
    const auto bytes = [&] {
        const int64_t taps = parcel.taps_d * problem.kernel[1] * problem.kernel[2] + 3;
        return parcel.steps * channel_step(problem) * parcel.channels * taps * bytes_per_element(problem.dtype);
    };
    const auto count = [&] {
        return problem.groups * tiles * (config.tile.channels / parcel.channels) * cuts(steps, parcel.steps) *
               cuts(problem.kernel[0], parcel.taps_d);
    };
    while (parcel.taps_d > 1 && (bytes() > kMostBytes || count() < device.multiprocessors)) --parcel.taps_d;
    while (2 * parcel.steps <= steps && 2 * bytes() <= kEnoughBytes && count() >= 2 * device.multiprocessors)
        parcel.steps *= 2;
    parcel.shared_bytes = bytes();
    parcel.count = count();
    return parcel;
}

Dim3 pack_grid(const PackParcel& parcel, int64_t packed_words, const Device& device) {
    constexpr int64_t kPerMultiprocessor = 2, kRowWords = 4;
    const int64_t most = cuts(packed_words, parcel.count * kRowWords * kPackThreads);
    const int64_t wanted = kPerMultiprocessor * device.multiprocessors / parcel.count;
    return {parcel.count, std::max<int64_t>(std::min(wanted, most), 1)};
}

KernelRequest pack_request(const Problem& problem, const TapTables& tables, const Config& config,
                           const PackParcel& parcel) {
    Prelude prelude = kernel_constants(problem, tables, config);
    prelude.constant("kPackSteps", parcel.steps).constant("kPackTapsD", parcel.taps_d);
    add_plane_taps(prelude, tables.plane);
    add_blocks(prelude, problem, tables.plane, config);
    add_slot_taps(prelude, tables.depth, config);
    prelude.add(element_types(problem));
    return {"pack_weights.cuh", prelude.str(), "pack_weights", parcel.shared_bytes};
}

} // namespace tconv3d::cuda::tensorcore
