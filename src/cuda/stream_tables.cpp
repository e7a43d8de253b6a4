#include <algorithm>
#include <numeric>

#include "cuda/stream.hpp"

namespace tconv3d::cuda {

namespace {

struct Range {
    int64_t least;
    int64_t greatest;
};

/// Over the taps of all phases. Tap 0 has delta 0, so the greatest is never below 0, and no delta is above it.
Range delta_range(const DimensionPhases& dim) {
    Range range{0, 0};
    for (const Phase& phase : dim.phases) {
        for (const Tap& tap : phase.taps) range.least = std::min(range.least, tap.delta);
    }
    return range;
}

/// The q that hold all outputs.
Range q_range(const DimensionPhases& dim) {
    Range range{0, 0};
    bool any = false;
    for (const Phase& phase : dim.phases) {
        if (phase.count == 0) continue;
        const int64_t last = phase.q_first + phase.count - 1;
        range.least = any ? std::min(range.least, phase.q_first) : phase.q_first;
        range.greatest = any ? std::max(range.greatest, last) : last;
        any = true;
    }
    return range;
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

std::vector<StreamOffset> plane_offsets(const DimensionPhases& dim_h, const DimensionPhases& dim_w) {
    std::vector<StreamOffset> offsets;
    for (size_t rh = 0; rh < dim_h.phases.size(); ++rh) {
        for (size_t rw = 0; rw < dim_w.phases.size(); ++rw) {
            const int64_t phase = static_cast<int64_t>(rh) * dim_w.stride + static_cast<int64_t>(rw);
            for (const Tap& h : dim_h.phases[rh].taps) {
                for (const Tap& w : dim_w.phases[rw].taps) {
                    add_use(offsets, h.delta, w.delta, {phase, h.tap, w.tap});
                }
            }
        }
    }
    return offsets;
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

/// Puts the uses of each offset in the order of their accumulators and cuts them into runs that all offsets share.
void set_runs(std::vector<StreamOffset>& offsets, const std::vector<int64_t>& accumulator) {
    const auto place = [&](const StreamUse& use) { return accumulator[static_cast<size_t>(use.phase)]; };
    const std::vector<StreamOffset> unordered = offsets;
    for (StreamOffset& offset : offsets) {
        std::sort(offset.uses.begin(), offset.uses.end(),
                  [&](const StreamUse& a, const StreamUse& b) { return place(a) < place(b); });
        for (size_t i = 0; i < offset.uses.size(); ++i) {
            const bool same =
                i > 0 && offsets_of(unordered, offset.uses[i].phase) == offsets_of(unordered, offset.uses[i - 1].phase);
            if (same) {
                ++offset.runs.back().count;
            } else {
                offset.runs.push_back({place(offset.uses[i]), 1});
            }
        }
    }
}

} // namespace

StreamTables::StreamTables(const Problem& problem) {
    const PhaseTable table(problem);
    for (size_t i = 0; i < 3; ++i) {
        const Range deltas = delta_range(table.dims[i]), q = q_range(table.dims[i]);
        delta_min[i] = deltas.least;
        delta_max[i] = deltas.greatest;
        q_begin[i] = q.least;
        q_end[i] = q.greatest + 1;
    }
    slots = 0;
    rotations = 1;
    for (const Phase& phase : table.dims[0].phases) {
        Ring ring{0, slots, 0, 0};
        if (!phase.taps.empty()) {
            ring.delta_max = phase.taps.front().delta;
            ring.delta_min = phase.taps.back().delta;
            ring.length = ring.delta_max - ring.delta_min + 1;
            rotations = std::lcm(rotations, ring.length);
        }
        slots += ring.length;
        rings.push_back(ring);
    }
    offsets = plane_offsets(table.dims[1], table.dims[2]);
    accumulator = order_phases(offsets, problem.stride[1] * problem.stride[2]);
    accumulators = *std::max_element(accumulator.begin(), accumulator.end()) + 1;
    set_runs(offsets, accumulator);
}

int64_t StreamTables::longest_run() const {
    int64_t longest = 0;
    for (const StreamOffset& offset : offsets) {
        for (const StreamRun& run : offset.runs) longest = std::max(longest, run.count);
    }
    return longest;
}

int64_t StreamTables::uses() const {
    int64_t count = 0;
    for (const StreamOffset& offset : offsets) count += static_cast<int64_t>(offset.uses.size());
    return count;
}

} // namespace tconv3d::cuda
