#include "cuda/tensorcore/tables.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/cuts.hpp"
#include "core/index_map.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// Input planes that are read along a dimension. There is one even where no output has a tap.
int64_t plane_count(const Axis& axis) {
    return std::max<int64_t>(static_cast<int64_t>(axis.planes.size()), 1);
}

/// Adds the tap to the shift it reads at, which is made when it is new.
void add_tap(std::vector<PlaneShift>& shifts, const PlaneShift& at, const PlaneTap& tap) {
    const auto same = [&](const PlaneShift& shift) {
        return shift.plane == at.plane && shift.shift_h == at.shift_h && shift.shift_w == at.shift_w;
    };
    auto found = std::find_if(shifts.begin(), shifts.end(), same);
    if (found == shifts.end()) found = shifts.insert(shifts.end(), at);
    found->taps.push_back(tap);
}

/// The taps of the plane, of the given ones along H and W.
std::vector<PlaneShift> plane_shifts(const Axis& axis_h, const std::vector<AxisPhase>& phases_h, const Axis& axis_w) {
    const std::vector<AxisPhase>& phases_w = axis_w.phases;
    std::vector<PlaneShift> shifts;
    for (size_t phase_h = 0; phase_h < phases_h.size(); ++phase_h) {
        for (size_t phase_w = 0; phase_w < phases_w.size(); ++phase_w) {
            const auto phase = static_cast<int64_t>(phase_h * phases_w.size() + phase_w);
            for (const AxisTap& h : phases_h[phase_h].taps)
                for (const AxisTap& w : phases_w[phase_w].taps) {
                    const int64_t plane =
                        axis_h.plane_index(h.plane) * plane_count(axis_w) + axis_w.plane_index(w.plane);
                    add_tap(shifts, {plane, h.shift, w.shift, {}, {}}, {phase, h.tap, w.tap});
                }
        }
    }
    return shifts;
}

/// One pass for each tap along H, those of a phase one after another.
void set_passes_apart(PlaneTables& tables, const Axis& h, int64_t planes_w) {
    const std::vector<AxisPhase>& phases = h.phases;
    std::vector<std::pair<int64_t, size_t>> order; // minus the number of taps, phase
    order.reserve(phases.size());
    for (size_t phase = 0; phase < phases.size(); ++phase)
        order.emplace_back(-static_cast<int64_t>(phases[phase].taps.size()), phase);
    std::sort(order.begin(), order.end());
    for (const auto& [taps, phase] : order) {
        tables.row_sets.push_back({static_cast<int64_t>(phase), tables.pass_count()});
        for (const AxisTap& tap : phases[phase].taps)
            tables.passes.push_back({tap.tap, h.plane_index(tap.plane) * planes_w, tap.shift});
    }
}

/// At which shifts the taps of a phase read.
std::vector<bool> shifts_of(const std::vector<PlaneShift>& shifts, int64_t phase) {
    std::vector<bool> read;
    read.reserve(shifts.size());
    for (const PlaneShift& shift : shifts) {
        read.push_back(
            std::any_of(shift.taps.begin(), shift.taps.end(), [&](const PlaneTap& tap) { return tap.phase == phase; }));
    }
    return read;
}

/// Numbers the phases that have taps such that those that read at the same shifts stand together.
/// Only these may share a wgmma: the assembler serialises wgmmas whose accumulators overlap in part.
std::vector<int64_t> order_phases(const std::vector<PlaneShift>& shifts, int64_t phases) {
    std::vector<std::pair<std::vector<bool>, int64_t>> order;
    order.reserve(static_cast<size_t>(phases));
    for (int64_t phase = 0; phase < phases; ++phase) order.emplace_back(shifts_of(shifts, phase), phase);
    std::sort(order.begin(), order.end());
    std::vector<int64_t> accumulator(static_cast<size_t>(phases), -1);
    int64_t next = 0;
    for (const auto& [read, phase] : order) {
        const bool any = std::find(read.begin(), read.end(), true) != read.end();
        if (any) accumulator[static_cast<size_t>(phase)] = next++;
    }
    return accumulator;
}

/// Puts the taps of each shift in the order of their accumulators, and cuts them into products that all shifts share,
/// or each for itself.
void set_products(std::vector<PlaneShift>& shifts, const std::vector<int64_t>& accumulator, bool shared) {
    const auto place = [&](const PlaneTap& tap) { return accumulator[static_cast<size_t>(tap.phase)]; };
    const std::vector<PlaneShift> unordered = shifts;
    for (PlaneShift& shift : shifts) {
        std::sort(shift.taps.begin(), shift.taps.end(),
                  [&](const PlaneTap& a, const PlaneTap& b) { return place(a) < place(b); });
        for (size_t i = 0; i < shift.taps.size(); ++i) {
            const bool same =
                shared && i > 0 &&
                shifts_of(unordered, shift.taps[i].phase) == shifts_of(unordered, shift.taps[i - 1].phase);
            if (same) {
                ++shift.products.back().count;
            } else {
                shift.products.push_back({place(shift.taps[i]), 1});
            }
        }
    }
}

std::vector<TapGroup> cut_into_groups(const PlaneTables& tables, int64_t groups) {
    std::vector<TapGroup> begins;
    const int64_t taps = std::max<int64_t>(tables.taps(), 1);
    int64_t product = 0, tap = 0;
    for (const PlaneShift& shift : tables.shifts) {
        for (const Product& next : shift.products) {
            // The taps are cut into equal parts; a product belongs to the part that its first tap lies in.
            const int64_t group = tap * groups / taps;
            if (group >= static_cast<int64_t>(begins.size())) begins.push_back({product, tap});
            ++product;
            tap += next.count;
        }
    }
    begins.push_back({product, tap});
    return begins;
}

} // namespace

InputPlanes::InputPlanes(const Axis& axis) : stride(axis.in_stride), first(axis.planes) {
    if (first.empty()) first.push_back(0);
}

int64_t InputPlanes::elements(int64_t extent) const {
    int64_t count = 0;
    for (const int64_t begin : first) count += cuts(std::max<int64_t>(extent - begin, 0), stride);
    return count;
}

DepthTables::DepthTables(const Axis& axis, Form form) : planes(plane_count(axis)), slots(0), rotations(1) {
    constexpr int64_t kMostRing = 32; // slots of 8 channels in a product of 256 columns
    for (size_t phase = 0; phase < axis.phases.size(); ++phase) {
        const std::vector<AxisTap>& of_phase = axis.phases[phase].taps;
        // A slice finishes the phases without taps when it finishes the earliest ones.
        Ring ring{0, slots, axis.all_shifts().second, axis.all_shifts().second};
        if (!of_phase.empty()) {
            std::tie(ring.shift_min, ring.shift_max) =
                std::minmax(of_phase.front().shift, of_phase.back().shift); // which rise or fall with the tap
            ring.length = ring.shift_max - ring.shift_min + 1;
            // Longer rings have no config, and their multiples might not fit in 64 bits.
            if (ring.length <= kMostRing) rotations = std::lcm(rotations, ring.length);
        }
        slots += ring.length;
        rings.push_back(ring);
        for (const AxisTap& tap : of_phase)
            taps.push_back({static_cast<int64_t>(phase), tap.tap, tap.shift, axis.plane_index(tap.plane)});
    }
    // The last input slice comes last: it may still be on its way.
    std::sort(taps.begin(), taps.end(), [](const DepthTap& a, const DepthTap& b) {
        return std::tie(a.phase, a.shift, a.plane) < std::tie(b.phase, b.shift, b.plane);
    });
    rotations *= planes;
    if (form == Form::gathered) {
        slots = 1;
        rotations = static_cast<int64_t>(taps.size());
    }
}

int64_t DepthTables::tap_at(int64_t phase, int64_t shift, int64_t plane) const {
    const auto same = [&](const DepthTap& tap) {
        return tap.phase == phase && tap.shift == shift && tap.plane == plane;
    };
    const auto found = std::find_if(taps.begin(), taps.end(), same);
    return found == taps.end() ? -1 : found->tap;
}

PlaneTables::PlaneTables(const Axis& h, const Axis& w, RowPhases rows, Form form) {
    if (rows == RowPhases::apart) {
        const int64_t first_plane = h.planes.empty() ? 0 : h.planes.front();
        set_passes_apart(*this, h, plane_count(w));
        shifts = plane_shifts(h, {{0, {{0, first_plane, 0}}}}, w);
    } else {
        row_sets = {{0, 0}};
        passes = {{0, 0, 0}};
        shifts = plane_shifts(h, h.phases, w);
    }
    row_phases = h.out_stride / static_cast<int64_t>(row_sets.size());
    accumulator = order_phases(shifts, row_phases * w.out_stride);
    accumulators = *std::max_element(accumulator.begin(), accumulator.end()) + 1;
    set_products(shifts, accumulator, form == Form::streamed);
    for (int64_t groups = 1; groups <= std::max<int64_t>(products(), 1); ++groups)
        groups_.push_back(cut_into_groups(*this, groups));
}

int64_t PlaneTables::longest_product() const {
    int64_t longest = 0;
    for (const PlaneShift& shift : shifts)
        for (const Product& product : shift.products) longest = std::max(longest, product.count);
    return longest;
}

int64_t PlaneTables::products() const {
    int64_t count = 0;
    for (const PlaneShift& shift : shifts) count += static_cast<int64_t>(shift.products.size());
    return count;
}

int64_t PlaneTables::taps() const {
    int64_t count = 0;
    for (const PlaneShift& shift : shifts) count += static_cast<int64_t>(shift.taps.size());
    return count;
}

int64_t PlaneTables::first_shift_h() const {
    int64_t first = shifts.front().shift_h;
    for (const PlaneShift& shift : shifts) first = std::min(first, shift.shift_h);
    return first;
}

TapTables::TapTables(const IndexMap& map, RowPhases rows, Form of)
    : form(of), inputs{InputPlanes(map.axes[0]), InputPlanes(map.axes[1]), InputPlanes(map.axes[2])},
      depth(map.axes[0], of), plane(map.axes[1], map.axes[2], rows, of) {
    for (size_t i = 0; i < 3; ++i) {
        q_count[i] = map.axes[i].q_count();
        std::tie(shift_min[i], shift_max[i]) = map.axes[i].all_shifts();
    }
}

} // namespace tconv3d::cuda::tensorcore
