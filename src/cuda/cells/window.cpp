#include "cuda/cells/window.hpp"

#include <algorithm>
#include <map>

#include "core/cuts.hpp"
#include "core/direction.hpp"

namespace tconv3d::cuda {
namespace {

/// What each voxel of a slice, or each slice, is multiplied with and added to.
struct Uses {
    std::vector<int64_t> begin = {0};
    std::vector<int64_t> output;
    std::vector<int64_t> tap;

    void add(int64_t output_place, int64_t tap_place) {
        output.push_back(output_place);
        tap.push_back(tap_place);
    }
    void close() { begin.push_back(static_cast<int64_t>(tap.size())); }
    void print(Prelude& prelude, const std::string& suffix) const {
        prelude.array("kUseBegin" + suffix, begin);
        prelude.array("kUseOutput" + suffix, output);
        prelude.array("kUseTap" + suffix, tap);
    }
};

Uses slice_uses(const std::vector<CellShift>& d) {
    Uses uses;
    for (const CellShift& shift : d) {
        for (const auto& [output, tap] : shift.uses) uses.add(output, tap);
        uses.close();
    }
    return uses;
}

Uses voxel_uses(const std::vector<CellShift>& h, const std::vector<CellShift>& w, int64_t cell_w, int64_t kernel_w) {
    Uses uses;
    for (const CellShift& row : h)
        for (const CellShift& column : w) {
            for (const auto& [output_h, tap_h] : row.uses)
                for (const auto& [output_w, tap_w] : column.uses)
                    uses.add(output_h * cell_w + output_w, tap_h * kernel_w + tap_w);
            uses.close();
        }
    return uses;
}

void add_shifts(Prelude& prelude, const std::vector<CellShift>& shifts, const std::string& suffix) {
    std::vector<int64_t> list;
    list.reserve(shifts.size());
    for (const CellShift& shift : shifts) list.push_back(shift.shift);
    prelude.constant("kShifts" + suffix, static_cast<int64_t>(list.size()));
    prelude.array("kShift" + suffix, list);
}

/// Positions in a sample fit in 32 bits, with room for cells and taps that reach beyond it.
bool is_narrow(const Problem& problem) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    const int64_t channels = problem.channels_last() ? std::max(problem.src_channels, problem.dst_channels) : 1;
    if (std::max(problem.src_voxels(), problem.dst_voxels()) >= kLimit / channels) return false;
    if (is_fwd(problem)) return true;
    // Where the padding is large, voxels of src reach far beyond a small dst.
    for (size_t i = 0; i < 3; ++i) {
        const double reach = static_cast<double>(problem.src[i]) * static_cast<double>(problem.stride[i]) +
                             static_cast<double>(problem.kernel[i]) * static_cast<double>(problem.dilation[i]) +
                             static_cast<double>(problem.padding[i]);
        if (2 * reach >= static_cast<double>(kLimit)) return false;
    }
    return true;
}

} // namespace

std::vector<CellShift> cell_shifts(const Axis& axis, int64_t cell) {
    std::map<int64_t, CellShift> shifts;
    for (int64_t output = 0; output < cell; ++output) {
        const int64_t q = output / axis.out_stride, phase = output % axis.out_stride;
        for (const AxisTap& tap : axis.phases[static_cast<size_t>(phase)].taps) {
            const int64_t shift = axis.input(tap.plane, q + tap.shift);
            CellShift& entry = shifts[shift];
            entry.shift = shift;
            entry.uses.push_back({output, tap.tap});
        }
    }
    std::vector<CellShift> list;
    list.reserve(shifts.size());
    for (auto& [shift, entry] : shifts) list.push_back(std::move(entry));
    return list;
}

int64_t count_uses(const std::vector<CellShift>& shifts) {
    int64_t uses = 0;
    for (const CellShift& shift : shifts) uses += static_cast<int64_t>(shift.uses.size());
    return uses;
}

int64_t vector_voxels(const Problem& problem, int64_t cell_w) {
    if (problem.channels_last()) return 1;
    if (is_fwd(problem)) return cell_w / problem.stride[2];
    const int64_t own = cell_w * problem.stride[2];
    return kMostAccess % (own * bytes_per_element(problem.dtype)) == 0 && problem.dst()[2] % own == 0 ? own : 1;
}

std::vector<int64_t> channel_packs(const Problem& problem) {
    std::vector<int64_t> packs = {1};
    const bool depthwise = problem.src_channels_per_group() == 1 && problem.dst_channels_per_group() == 1;
    if (!problem.channels_last() || !depthwise) return packs;
    for (const int64_t pack : {2, 4, 8})
        if (problem.groups % pack == 0 && pack * bytes_per_element(problem.dtype) <= kMostAccess) packs.push_back(pack);
    return packs;
}

int64_t channel_lanes(const Problem& problem, int64_t channels, int64_t pack) {
    int64_t lanes = 1;
    while (problem.channels_last() && lanes < kWarp && lanes * pack < channels) lanes *= 2;
    return lanes;
}

int64_t voxel_words(const Problem& problem, int64_t pack) {
    return cuts(pack * bytes_per_element(problem.dtype), 4);
}

int64_t row_loads(const std::vector<CellShift>& w, int64_t vector) {
    const auto is_own = [&](const CellShift& column) { return column.shift >= 0 && column.shift < vector; };
    const int64_t side_by_side = std::count_if(w.begin(), w.end(), is_own);
    return static_cast<int64_t>(w.size()) - std::max<int64_t>(side_by_side - 1, 0);
}

double spread(int64_t voxels, int64_t apart) {
    constexpr double kSectors = 4;
    const int64_t sectors = std::min(voxels, cuts(voxels * apart, 32));
    return std::max(static_cast<double>(sectors) / kSectors, 1.0);
}

double pack_clocks(const Problem& problem, int64_t pack) {
    constexpr int64_t kLine = 128;
    return static_cast<double>(cuts(kWarp * pack * bytes_per_element(problem.dtype), kLine));
}

int64_t compute_bytes(const Problem& problem) {
    return problem.dtype == DType::f64 ? 8 : 4;
}

void add_window(Prelude& prelude, const Problem& problem, const Extents& cell) {
    const IndexMap map(problem);
    const std::vector<CellShift> d = cell_shifts(map.axes[0], cell[0]);
    const std::vector<CellShift> h = cell_shifts(map.axes[1], cell[1]);
    const std::vector<CellShift> w = cell_shifts(map.axes[2], cell[2]);
    add_shifts(prelude, d, "D");
    add_shifts(prelude, h, "H");
    add_shifts(prelude, w, "W");
    slice_uses(d).print(prelude, "D");
    voxel_uses(h, w, cell[2], problem.kernel[2]).print(prelude, "");
}

std::string offset_types(const Problem& problem) {
    return is_narrow(problem) ? "using Offset = int;\nusing UnsignedOffset = unsigned;\n"
                              : "using Offset = long long;\nusing UnsignedOffset = unsigned long long;\n";
}

} // namespace tconv3d::cuda
