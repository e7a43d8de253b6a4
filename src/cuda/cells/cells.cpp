#include "cuda/cells/cells.hpp"
#include "core/cuts.hpp"

#include <algorithm>

#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kThreads = 128;
constexpr int64_t kMostBlocks = 2147483647;

/// The channels that tiles divide: those of a group, which read the same src, or all where each lane has its own group.
int64_t tile_space(const Problem& problem) {
    return problem.channels_last() ? problem.dst_channels : problem.dst_channels_per_group();
}

/// Positions in a sample fit in 32 bits, with room for cells and taps that reach beyond it.
bool is_narrow(const Problem& problem) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    const int64_t channels = problem.channels_last() ? std::max(problem.src_channels, problem.dst_channels) : 1;
    return std::max(problem.src_voxels(), problem.dst_voxels()) < kLimit / channels;
}

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

void add_window(Prelude& prelude, const Problem& problem, const CellTile& tile) {
    const IndexMap map(problem);
    const std::vector<CellShift> d = cell_shifts(map.axes[0], tile.cell[0]);
    const std::vector<CellShift> h = cell_shifts(map.axes[1], tile.cell[1]);
    const std::vector<CellShift> w = cell_shifts(map.axes[2], tile.cell[2]);
    add_shifts(prelude, d, "D");
    add_shifts(prelude, h, "H");
    add_shifts(prelude, w, "W");
    slice_uses(d).print(prelude, "D");
    voxel_uses(h, w, tile.cell[2], problem.kernel[2]).print(prelude, "");
}

class CellsKernel final : public Kernel {
public:
    CellsKernel(const Problem& problem, const Epilogue& epilogue, const Device& device, const CellTile& tile)
        : epilogue_(epilogue), tile_(tile),
          kernels_(device, [problem, tile,
                            epilogue](const ResultForm& form) { return cells_request(problem, tile, epilogue, form); }),
          args_(cells_arguments(problem, tile)), row_bytes_(tile.cell[2] * bytes_per_element(problem.dtype)) {}

    size_t workspace_bytes() const override { return 0; }

    void load(const Arguments& arguments, void* stream) const override { kernels_.get(arguments, stream); }

    void compile(bool saves_preactivation) const override { kernels_.compile(saves_preactivation); }

    void execute(const Arguments& arguments, void* stream, void*) const override {
        CellArguments args = args_;
        args.in = arguments.src;
        args.weight = arguments.weight;
        args.aligned = rows_aligned(arguments) ? 1 : 0;
        std::vector<const void*> output = output_argument(epilogue_, arguments, arguments.dst);
        std::array<void*, 2> kernel_arguments = {&args, static_cast<void*>(output.data())};
        launch(*kernels_.get(arguments, stream), {std::min(args.items, kMostBlocks)}, {kThreads},
               kernel_arguments.data(), stream);
    }

    std::string describe() const override { return tile_.str(); }

private:
    /// Whether every cell's rows of outputs begin at a multiple of their size.
    bool rows_aligned(const Arguments& arguments) const {
        const auto aligned = [&](const void* tensor) {
            return reinterpret_cast<uintptr_t>(tensor) % static_cast<uintptr_t>(row_bytes_) == 0;
        };
        return args_.out_extents.w % tile_.cell[2] == 0 && aligned(arguments.dst) && aligned(arguments.preactivation);
    }

    Epilogue epilogue_;
    CellTile tile_;
    Specializations kernels_;
    CellArguments args_;
    int64_t row_bytes_;
};

} // namespace

std::string CellTile::str() const {
    std::string text =
        "cells of " + tconv3d::str(cell) + " outputs x " + std::to_string(channels) + " channels in a thread";
    if (lanes > 1) text += ", " + std::to_string(lanes) + " channels side by side";
    text += ", weights of " + std::to_string(chunk) + " input channels staged";
    return splits_chains ? text + " and summed by themselves" : text;
}

Answer answer_cells(const Question& question) {
    const Problem& problem = question.problem;
    if (problem.direction != Direction::fwd) return {std::string("takes fwd, got ") + name(problem.direction), {}};
    // The kernel counts channels and voxels in 32 bits, with room for a tile beyond the last one.
    constexpr int64_t kLimit = int64_t{1} << 30;
    if (std::max(problem.src_channels, problem.dst_channels) >= kLimit)
        return {"takes fewer than 2^30 channels, got " + std::to_string(problem.src_channels) + " and " +
                    std::to_string(problem.dst_channels),
                {}};
    if (!has_shifts_below(problem, kLimit))
        return {"takes taps fewer than 2^30 voxels apart, got kernel " + tconv3d::str(problem.kernel) + ", padding " +
                    tconv3d::str(problem.padding) + ", dilation " + tconv3d::str(problem.dilation),
                {}};
    const CellTile tile = choose_cell_tile(problem, question.device.multiprocessors);
    if (tile.microseconds <= 0)
        return {"a cell of one stride is too large to unroll: kernel " + tconv3d::str(problem.kernel) + ", stride " +
                    tconv3d::str(problem.stride),
                {}};
    const auto prepare = [problem, tile, epilogue = question.epilogue, device = question.device] {
        return std::make_unique<CellsKernel>(problem, epilogue, device, tile);
    };
    return {"", {{"", tile.microseconds, prepare}}};
}

CellArguments cells_arguments(const Problem& problem, const CellTile& tile) {
    CellArguments args{};
    const Extents& in = problem.src;
    const Extents out = problem.dst();
    args.in_extents = {in[0], in[1], in[2]};
    args.out_extents = {out[0], out[1], out[2]};
    args.cells = {cuts(out[0], tile.cell[0]), cuts(out[1], tile.cell[1]), cuts(out[2], tile.cell[2])};
    args.blocks = cuts(args.cells.d * args.cells.h * args.cells.w, kThreads / tile.lanes);
    const int64_t space = tile_space(problem);
    const int64_t tiles = problem.dst_channels / space * cuts(space, tile.channels * tile.lanes);
    args.items = args.blocks * tiles * problem.batch;
    return args;
}

KernelRequest cells_request(const Problem& problem, const CellTile& tile, const Epilogue& epilogue,
                            const ResultForm& form) {
    Prelude prelude;
    const int64_t outputs = tile.cell[0] * tile.cell[1] * tile.cell[2] * tile.channels;
    prelude.add(output_source(problem, epilogue, form, outputs))
        .flag("kAddsAbsentBias", false)
        .extents("kCell", tile.cell)
        .extents("kStride", problem.stride)
        .constant("kKernelD", problem.kernel[0])
        .constant("kPlaneTaps", problem.kernel[1] * problem.kernel[2])
        .constant("kInChannels", problem.src_channels_per_group())
        .constant("kOutChannels", problem.dst_channels_per_group())
        .constant("kGroups", problem.groups)
        .constant("kThreadChannels", tile.channels)
        .constant("kLanes", tile.lanes)
        .constant("kSpace", tile_space(problem))
        .constant("kChunk", tile.chunk)
        .flag("kSplitsChains", tile.splits_chains)
        .flag("kChannelsLast", problem.channels_last())
        .constant("kThreads", kThreads)
        .add(is_narrow(problem) ? "using Offset = int;\nusing UnsignedOffset = unsigned;\n"
                                : "using Offset = long long;\nusing UnsignedOffset = unsigned long long;\n");
    add_window(prelude, problem, tile);
    return {"cells.cuh", prelude.str(), "cells", 0};
}

} // namespace tconv3d::cuda
