#include "cuda/cells/cells.hpp"
#include "core/cuts.hpp"

#include <algorithm>

#include "cuda/source/output_source.hpp"
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

Uses slice_uses(const std::vector<CellDelta>& d) {
    Uses uses;
    for (const CellDelta& delta : d) {
        for (const auto& [output, tap] : delta.uses) uses.add(output, tap);
        uses.close();
    }
    return uses;
}

Uses voxel_uses(const std::vector<CellDelta>& h, const std::vector<CellDelta>& w, int64_t cell_w, int64_t kernel_w) {
    Uses uses;
    for (const CellDelta& row : h)
        for (const CellDelta& column : w) {
            for (const auto& [output_h, tap_h] : row.uses)
                for (const auto& [output_w, tap_w] : column.uses)
                    uses.add(output_h * cell_w + output_w, tap_h * kernel_w + tap_w);
            uses.close();
        }
    return uses;
}

void add_deltas(Prelude& prelude, const std::vector<CellDelta>& deltas, const std::string& suffix) {
    std::vector<int64_t> list;
    list.reserve(deltas.size());
    for (const CellDelta& delta : deltas) list.push_back(delta.delta);
    prelude.constant("kDeltas" + suffix, static_cast<int64_t>(list.size()));
    prelude.array("kDelta" + suffix, list);
}

void add_window(Prelude& prelude, const Problem& problem, const CellTile& tile) {
    const IndexMap map(problem);
    const std::vector<CellDelta> d = cell_deltas(map.axes[0], tile.cell[0]);
    const std::vector<CellDelta> h = cell_deltas(map.axes[1], tile.cell[1]);
    const std::vector<CellDelta> w = cell_deltas(map.axes[2], tile.cell[2]);
    add_deltas(prelude, d, "D");
    add_deltas(prelude, h, "H");
    add_deltas(prelude, w, "W");
    slice_uses(d).print(prelude, "D");
    voxel_uses(h, w, tile.cell[2], problem.kernel[2]).print(prelude, "");
}

class CellsKernel final : public Kernel {
public:
    CellsKernel(const Problem& problem, const Epilogue& epilogue, const Device& device, const CellTile& tile)
        : epilogue_(epilogue), tile_(tile),
          variants_(device,
                    [problem, tile, epilogue](bool has_bias, bool saves_preactivation) {
                        return cells_request(problem, tile, epilogue, has_bias, saves_preactivation);
                    }),
          args_(cells_arguments(problem, tile)), row_bytes_(tile.cell[2] * bytes_per_element(problem.dtype)) {}

    size_t workspace_bytes() const override { return 0; }

    void load(const Arguments& arguments, void* stream) const override { variants_.get(arguments, stream); }

    void execute(const Arguments& arguments, void* stream, void*) const override {
        CellArgs args = args_;
        args.src = arguments.src;
        args.weight = arguments.weight;
        args.aligned = rows_aligned(arguments) ? 1 : 0;
        std::vector<const void*> output = output_argument(epilogue_, arguments);
        std::array<void*, 2> kernel_arguments = {&args, static_cast<void*>(output.data())};
        launch(variants_.get(arguments, stream), {std::min(args.items, kMostBlocks)}, {kThreads},
               kernel_arguments.data(), stream);
    }

    std::string describe() const override { return tile_.str(); }

private:
    /// Whether every cell's rows of outputs begin at a multiple of their size.
    bool rows_aligned(const Arguments& arguments) const {
        const auto aligned = [&](const void* tensor) {
            return reinterpret_cast<uintptr_t>(tensor) % static_cast<uintptr_t>(row_bytes_) == 0;
        };
        return args_.dst_extents[2] % tile_.cell[2] == 0 && aligned(arguments.dst) && aligned(arguments.preactivation);
    }

    Epilogue epilogue_;
    CellTile tile_;
    Variants variants_;
    CellArgs args_;
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

std::string reject_cells(const Problem& problem, const Epilogue&, const Device& device) {
    if (problem.direction != Direction::fwd) return std::string("takes fwd, got ") + name(problem.direction);
    if (choose_cell_tile(problem, device.multiprocessors).microseconds > 0) return "";
    return "a cell of one stride is too large to unroll: kernel " + tconv3d::str(problem.kernel) + ", stride " +
           tconv3d::str(problem.stride);
}

double cells_cost(const Problem& problem, const Epilogue&, const Device& device) {
    return choose_cell_tile(problem, device.multiprocessors).microseconds;
}

std::unique_ptr<Kernel> prepare_cells(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                      const std::string&) {
    return std::make_unique<CellsKernel>(problem, epilogue, device, choose_cell_tile(problem, device.multiprocessors));
}

CellArgs cells_arguments(const Problem& problem, const CellTile& tile) {
    CellArgs args{};
    args.src_extents = problem.src;
    args.dst_extents = problem.dst();
    for (size_t i = 0; i < 3; ++i) args.cells[i] = cuts(args.dst_extents[i], tile.cell[i]);
    args.blocks = cuts(args.cells[0] * args.cells[1] * args.cells[2], kThreads / tile.lanes);
    const int64_t space = tile_space(problem);
    const int64_t tiles = problem.dst_channels / space * cuts(space, tile.channels * tile.lanes);
    args.items = args.blocks * tiles * problem.batch;
    return args;
}

KernelRequest cells_request(const Problem& problem, const CellTile& tile, const Epilogue& epilogue, bool has_bias,
                            bool saves_preactivation) {
    Prelude prelude;
    prelude.add(output_source(problem, epilogue, has_bias, saves_preactivation))
        .extents("kCell", tile.cell)
        .extents("kStride", problem.stride)
        .constant("kKernelD", problem.kernel[0])
        .constant("kPlaneTaps", problem.kernel[1] * problem.kernel[2])
        .constant("kGroupCi", problem.src_channels_per_group())
        .constant("kGroupCo", problem.dst_channels_per_group())
        .constant("kGroups", problem.groups)
        .constant("kCo", tile.channels)
        .constant("kLanes", tile.lanes)
        .constant("kSpace", tile_space(problem))
        .constant("kChunk", tile.chunk)
        .flag("kSplitsChains", tile.splits_chains)
        .flag("kChannelsLast", problem.channels_last())
        .constant("kThreads", kThreads)
        .add(is_narrow(problem) ? "using Offset = int;\nusing UnsignedOffset = unsigned;\n"
                                : "using Offset = long long;\nusing UnsignedOffset = unsigned long long;\n");
    add_window(prelude, problem, tile);
    return {"cells.cuh", prelude.str(), "cells_fwd", 0};
}

} // namespace tconv3d::cuda
