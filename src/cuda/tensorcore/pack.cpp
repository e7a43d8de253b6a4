#include <algorithm>
#include <vector>

#include "core/cuts.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/tensorcore/config.hpp"

namespace tconv3d::cuda {

namespace {

/// The tap (h, w) of each use.
void add_use_taps(Prelude& prelude, const StreamTables& tables) {
    std::vector<int64_t> tap_h, tap_w;
    for (const StreamPass& pass : tables.passes) {
        for (const StreamOffset& offset : tables.offsets) {
            for (const StreamUse& use : offset.uses) {
                tap_h.push_back(pass.tap_h + use.tap_h);
                tap_w.push_back(use.tap_w);
            }
        }
    }
    prelude.array("kUseTapH", tap_h);
    prelude.array("kUseTapW", tap_w);
}

/// The blocks of a stage: passes, and their groups of taps, one after another; in a group k steps and parts.
void add_blocks(Prelude& prelude, const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const std::vector<TapGroup>& groups = tables.tap_groups(tile.tap_groups);
    std::vector<int64_t> before, index, count;
    for (int64_t pass = 0; pass < tables.pass_count(); ++pass) {
        for (size_t group = 0; group + 1 < groups.size(); ++group) {
            const int64_t first = groups[group].first_use, uses = groups[group + 1].first_use - first;
            for (int64_t use = 0; use < uses; ++use) {
                before.push_back(tile.steps * stream_parts(problem) * (pass * tables.uses() + first));
                index.push_back(use);
                count.push_back(uses);
            }
        }
    }
    prelude.array("kUseGroup", before);
    prelude.array("kUseIndex", index);
    prelude.array("kGroupUses", count);
}

/// The tap along D that a slot takes while slices of a rotation pass: delta = rotation - slot, modulo the ring's length
/// and within its range. -1 where the ring has a gap.
/// Where sums are gathered, every tap has a turn.
void add_places(Prelude& prelude, const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    std::vector<int64_t> taps;
    if (tables.form == StreamForm::gather) {
        for (int64_t tap = 0; tap < problem.kernel[0]; ++tap) taps.push_back(tap);
        prelude.array("kPlaceTap", taps);
        return;
    }
    for (int64_t turn = 0; turn < (tile.turned ? 1 : tables.rotations); ++turn) {
        for (size_t r = 0; r < tables.rings.size(); ++r) {
            const Ring& ring = tables.rings[r];
            for (int64_t slot = 0; slot < ring.length; ++slot) {
                const int64_t from_max = ring.delta_max + slot - turn;
                const int64_t delta = ring.delta_max - (from_max - floor_div(from_max, ring.length) * ring.length);
                const int64_t reach = static_cast<int64_t>(r) + problem.padding[0] - delta * problem.stride[0];
                const int64_t tap = reach / problem.dilation[0];
                taps.push_back(reach % problem.dilation[0] == 0 && tap < problem.kernel[0] ? tap : -1);
            }
        }
    }
    prelude.array("kPlaceTap", taps);
}

} // namespace

StreamPack stream_pack(const Problem& problem, const StreamTile& tile, const Device& device) {
    constexpr int64_t kMostBytes = 40 << 10, kEnoughBytes = 12 << 10;
    const int64_t tiles = cuts(problem.dst_channels_per_group(), tile.dst_channels);
    const int64_t all_steps = stream_all_steps(problem, tile);
    StreamPack pack{4 * stream_lane_channels(problem, tile), 1, problem.kernel[0], 0, 0};
    // The kernel leaves up to three elements between the taps of one output channel and of the next.
    const auto bytes = [&] {
        const int64_t taps = pack.taps_d * problem.kernel[1] * problem.kernel[2] + 3;
        return pack.steps * stream_channel_step(problem) * pack.channels * taps * bytes_per_element(problem.dtype);
    };
    const auto parcels = [&] {
        return problem.groups * tiles * (tile.dst_channels / pack.channels) * cuts(all_steps, pack.steps) *
               cuts(problem.kernel[0], pack.taps_d);
    };
    while (pack.taps_d > 1 && (bytes() > kMostBytes || parcels() < device.multiprocessors)) --pack.taps_d;
    while (2 * pack.steps <= all_steps && 2 * bytes() <= kEnoughBytes && parcels() >= 2 * device.multiprocessors)
        pack.steps *= 2;
    pack.shared_bytes = bytes();
    pack.parcels = parcels();
    return pack;
}

Dim3 stream_pack_grid(const StreamPack& pack, int64_t packed_words, const Device& device) {
    constexpr int64_t kPerMultiprocessor = 2, kCoreWords = 4;
    const int64_t most = cuts(packed_words, pack.parcels * kCoreWords * kStreamPackThreads);
    const int64_t wanted = kPerMultiprocessor * device.multiprocessors / pack.parcels;
    return {pack.parcels, std::max<int64_t>(std::min(wanted, most), 1)};
}

KernelRequest stream_pack_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                                  const StreamPack& pack) {
    Prelude prelude = stream_constants(problem, tables, tile);
    prelude.constant("kPackSteps", pack.steps).constant("kPackTapsD", pack.taps_d);
    add_use_taps(prelude, tables);
    add_blocks(prelude, problem, tables, tile);
    add_places(prelude, problem, tables, tile);
    prelude.add(output_source(problem, {}, false, false));
    return {"pack_weights.cuh", prelude.str(), "stream_pack", pack.shared_bytes};
}

} // namespace tconv3d::cuda
