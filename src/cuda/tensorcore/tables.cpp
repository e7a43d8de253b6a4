#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/index_map.hpp"
#include "cuda/tensorcore/config.hpp"

namespace tconv3d::cuda {

namespace {

struct StreamTap {
    int64_t tap;
    int64_t delta;
};

/// The taps of output phase r, in rising order of tap, so in falling order of delta.
std::vector<StreamTap> taps_of(const Axis& axis, int64_t r) {
    std::vector<StreamTap> taps;
    for (const AxisTap& tap : axis.phases[static_cast<size_t>(r)].taps) taps.push_back({tap.tap, tap.shift});
    return taps;
}

/// Adds the use to the offset it reads at, which is made when it is new.
void add_use(std::vector<StreamOffset>& offsets, int64_t delta_h, int64_t delta_w, const StreamUse& use) {
    const auto same = [&](const StreamOffset& offset) {
        return offset.delta_h == delta_h && offset.delta_w == delta_w;
    };
    auto found = std::find_if(offsets.begin(), offsets.end(), same);
    if (found == offsets.end()) found = offsets.insert(offsets.end(), StreamOffset{delta_h, delta_w, {}, {}});
    found->uses.push_back(use);
}

/// The taps along H by phase.
std::vector<std::vector<StreamTap>> row_taps(const Axis& axis) {
    std::vector<std::vector<StreamTap>> taps;
    taps.reserve(axis.phases.size());
    for (int64_t rh = 0; rh < axis.out_stride; ++rh) taps.push_back(taps_of(axis, rh));
    return taps;
}

/// The taps of the plane, of the given ones along H and all along W.
std::vector<StreamOffset> plane_offsets(const std::vector<std::vector<StreamTap>>& rows, const Axis& axis) {
    std::vector<StreamOffset> offsets;
    for (size_t rh = 0; rh < rows.size(); ++rh) {
        for (int64_t rw = 0; rw < axis.out_stride; ++rw) {
            const std::vector<StreamTap> columns = taps_of(axis, rw);
            for (const StreamTap& h : rows[rh]) {
                for (const StreamTap& w : columns) {
                    const int64_t phase = static_cast<int64_t>(rh) * axis.out_stride + rw;
                    add_use(offsets, h.delta, w.delta, {phase, h.tap, w.tap});
                }
            }
        }
    }
    return offsets;
}

/// One pass for each tap along H, those of a phase one after another.
void set_passes_apart(StreamTables& tables, const std::vector<std::vector<StreamTap>>& rows) {
    std::vector<std::pair<int64_t, size_t>> order; // minus the number of taps, phase
    order.reserve(rows.size());
    for (size_t phase = 0; phase < rows.size(); ++phase)
        order.emplace_back(-static_cast<int64_t>(rows[phase].size()), phase);
    std::sort(order.begin(), order.end());
    for (const auto& [taps, phase] : order) {
        tables.row_sets.push_back({static_cast<int64_t>(phase), tables.pass_count()});
        for (const StreamTap& tap : rows[phase]) tables.passes.push_back({tap.tap, tap.delta});
    }
}

/// Which offsets a phase's taps read at.
std::vector<bool> offsets_of(const std::vector<StreamOffset>& offsets, int64_t phase) {
    std::vector<bool> read;
    read.reserve(offsets.size());
    for (const StreamOffset& offset : offsets) {
        read.push_back(std::any_of(offset.uses.begin(), offset.uses.end(),
                                   [&](const StreamUse& use) { return use.phase == phase; }));
    }
    return read;
}

/// Numbers the phases that have taps such that those that read at the same offsets stand together.
/// Only these may share a wgmma: the assembler serialises wgmmas whose sums overlap in part.
std::vector<int64_t> order_phases(const std::vector<StreamOffset>& offsets, int64_t phases) {
    std::vector<std::pair<std::vector<bool>, int64_t>> order;
    order.reserve(static_cast<size_t>(phases));
    for (int64_t phase = 0; phase < phases; ++phase) order.emplace_back(offsets_of(offsets, phase), phase);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> accumulator(static_cast<size_t>(phases), -1);
    int64_t next = 0;
    for (const auto& [read, phase] : order) {
        const bool any = std::find(read.begin(), read.end(), true) != read.end();
        if (any) accumulator[static_cast<size_t>(phase)] = next++;
    }
    return accumulator;
}

/// Puts the uses of each offset in the order of their accumulators and cuts them into runs that all offsets share, or
/// each for itself.
void set_runs(std::vector<StreamOffset>& offsets, const std::vector<int64_t>& accumulator, bool shared) {
    const auto place = [&](const StreamUse& use) { return accumulator[static_cast<size_t>(use.phase)]; };
    const std::vector<StreamOffset> unordered = offsets;
    for (StreamOffset& offset : offsets) {
        std::sort(offset.uses.begin(), offset.uses.end(),
                  [&](const StreamUse& a, const StreamUse& b) { return place(a) < place(b); });
        for (size_t i = 0; i < offset.uses.size(); ++i) {
            const bool same =
                shared && i > 0 &&
                offsets_of(unordered, offset.uses[i].phase) == offsets_of(unordered, offset.uses[i - 1].phase);
            if (same) {
                ++offset.runs.back().count;
            } else {
                offset.runs.push_back({place(offset.uses[i]), 1});
            }
        }
    }
}

/// Cuts the taps into that many groups.
std::vector<TapGroup> cut_into_groups(const StreamTables& tables, int64_t groups) {
    std::vector<TapGroup> begins;
    const int64_t uses = std::max<int64_t>(tables.uses(), 1);
    int64_t run = 0, use = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& next : offset.runs) {
            // The uses are cut into equal parts; a run belongs to the part that its first use lies in.
            const int64_t group = use * groups / uses;
            if (group >= static_cast<int64_t>(begins.size())) begins.push_back({run, use});
            ++run;
            use += next.count;
        }
    }
    begins.push_back({run, use});
    return begins;
}

} // namespace

StreamTables::StreamTables(const Problem& problem, StreamRows rows, StreamForm of) : form(of) {
    const IndexMap map(problem);
    for (size_t i = 0; i < 3; ++i) {
        q_end[i] = map.axes[i].q_count();
        std::tie(delta_min[i], delta_max[i]) = map.axes[i].all_shifts();
    }
    slots = 0;
    rotations = 1;
    for (int64_t r = 0; r < problem.stride[0]; ++r) {
        const std::vector<StreamTap> taps = taps_of(map.axes[0], r);
        Ring ring{0, slots, delta_max[0], delta_max[0]};
        if (!taps.empty()) {
            ring.delta_max = taps.front().delta;
            ring.delta_min = taps.back().delta;
            ring.length = ring.delta_max - ring.delta_min + 1;
            rotations = std::lcm(rotations, ring.length);
        }
        slots += ring.length;
        rings.push_back(ring);
        // The last slice of src comes last: it may still be on its way.
        for (auto tap = taps.rbegin(); tap != taps.rend(); ++tap) depth_taps.push_back({r, tap->tap, tap->delta});
    }
    if (form == StreamForm::gather) {
        slots = 1;
        rotations = problem.kernel[0];
    }
    const std::vector<std::vector<StreamTap>> taps_h = row_taps(map.axes[1]);
    if (rows == StreamRows::apart) {
        set_passes_apart(*this, taps_h);
        offsets = plane_offsets({{{0, 0}}}, map.axes[2]);
    } else {
        row_sets = {{0, 0}};
        passes = {{0, 0}};
        offsets = plane_offsets(taps_h, map.axes[2]);
    }
    accumulator = order_phases(offsets, row_phases(problem) * problem.stride[2]);
    accumulators = *std::max_element(accumulator.begin(), accumulator.end()) + 1;
    set_runs(offsets, accumulator, form == StreamForm::scatter);
    for (int64_t groups = 1; groups <= std::max<int64_t>(runs(), 1); ++groups)
        cut_taps.push_back(cut_into_groups(*this, groups));
}

int64_t StreamTables::longest_run() const {
    int64_t longest = 0;
    for (const StreamOffset& offset : offsets) {
        for (const StreamRun& run : offset.runs) longest = std::max(longest, run.count);
    }
    return longest;
}

int64_t StreamTables::runs() const {
    int64_t count = 0;
    for (const StreamOffset& offset : offsets) count += static_cast<int64_t>(offset.runs.size());
    return count;
}

int64_t StreamTables::uses() const {
    int64_t count = 0;
    for (const StreamOffset& offset : offsets) count += static_cast<int64_t>(offset.uses.size());
    return count;
}

int64_t StreamTables::first_delta_h() const {
    int64_t first = offsets.front().delta_h;
    for (const StreamOffset& offset : offsets) first = std::min(first, offset.delta_h);
    return first;
}

} // namespace tconv3d::cuda
