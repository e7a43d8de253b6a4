#include "cuda/cells/cells.hpp"

#include <algorithm>
#include <array>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/cells/bwd_weight.hpp"
#include "cuda/cells/window.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kThreads = 128;
/// The channels that tiles divide: those of a group, which read the same input, or all where each lane has its own
/// group.
int64_t tile_space(const Problem& problem) {
    return problem.channels_last() ? all_out_channels(problem) : out_channels(problem);
}

class CellsKernel final : public Kernel {
public:
    CellsKernel(const Problem& problem, const Epilogue& epilogue, const Device& device, const CellTile& tile)
        : direction_(problem.direction), epilogue_(epilogue), tile_(tile),
          kernels_(device, problem.direction,
                   [problem, tile, epilogue](const ResultForm& form) {
                       return cells_request(problem, tile, epilogue, form);
                   }),
          args_(cells_arguments(problem, tile, device.multiprocessors)),
          row_bytes_(tile.cell[2] * bytes_per_element(problem.dtype)) {}

    size_t workspace_bytes() const override { return 0; }

    void load(const Arguments& arguments, void* stream) const override { kernels_.get(arguments, stream); }

    void compile(bool saves_preactivation) const override { kernels_.compile(saves_preactivation); }

    void execute(const Arguments& arguments, void* stream, void*) const override {
        const bool fwd = direction_ == Direction::fwd;
        void* const out = fwd ? arguments.dst : arguments.grad_src;
        CellArguments args = args_;
        args.in = fwd ? arguments.src : arguments.grad_dst;
        args.weight = arguments.weight;
        args.aligned = rows_aligned(out, arguments.preactivation) ? 1 : 0;
        std::vector<const void*> output = output_argument(epilogue_, arguments, out);
        std::array<void*, 2> kernel_arguments = {&args, static_cast<void*>(output.data())};
        launch(*kernels_.get(arguments, stream), {std::min(cuts(args.items, args.range), kMostBlocks)}, {kThreads},
               kernel_arguments.data(), stream);
    }

    std::string describe() const override { return tile_.str(); }

private:
    /// Whether every cell's rows of outputs begin at a multiple of their size.
    bool rows_aligned(const void* out, const void* preactivation) const {
        const auto aligned = [&](const void* tensor) {
            return reinterpret_cast<uintptr_t>(tensor) % static_cast<uintptr_t>(row_bytes_) == 0;
        };
        return args_.out_extents.w % tile_.cell[2] == 0 && aligned(out) && aligned(preactivation);
    }

    Direction direction_;
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
    if (lanes > 1) text += ", " + std::to_string(lanes * pack) + " channels side by side";
    text += ", weights of " + std::to_string(chunk) + " input channels staged";
    return splits_chains ? text + " and summed by themselves" : text;
}

Answer answer_cells(const Question& question) {
    const Problem& problem = question.problem;
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
    if (problem.direction == Direction::bwd_weight) return answer_cells_bwd_weight(question);
    const CellTile tile = choose_cell_tile(problem, question.device.multiprocessors);
    if (tile.microseconds <= 0)
        return {std::string("a cell of one ") + (is_fwd(problem) ? "stride" : "voxel") +
                    " is too large to unroll: kernel " + tconv3d::str(problem.kernel) + ", stride " +
                    tconv3d::str(problem.stride),
                {}};
    const auto prepare = [problem, tile, epilogue = question.epilogue, device = question.device] {
        return std::make_unique<CellsKernel>(problem, epilogue, device, tile);
    };
    return {"", {{"", tile.microseconds, prepare}}};
}

CellArguments cells_arguments(const Problem& problem, const CellTile& tile, int multiprocessors) {
    CellArguments args{};
    const Extents in = in_extents(problem), out = out_extents(problem);
    args.in_extents = {in[0], in[1], in[2]};
    args.out_extents = {out[0], out[1], out[2]};
    args.cells = {cuts(out[0], tile.cell[0]), cuts(out[1], tile.cell[1]), cuts(out[2], tile.cell[2])};
    args.blocks = cuts(args.cells.d * args.cells.h * args.cells.w, kThreads / tile.lanes);
    const int64_t space = tile_space(problem);
    const int64_t tiles = all_out_channels(problem) / space * cuts(space, tile.channels * tile.lanes);
    args.items = args.blocks * tiles * problem.batch;
    // Where lanes have channels of their own, many weights are staged for few outputs. Where that is all weights, a CTA
    // keeps them for further items, as long as there are CTAs enough to share these out.
    constexpr int64_t kCtasEach = 8, kMostItems = 8;
    const bool keeps = tile.lanes > 1 && tile.chunk == in_channels(problem);
    args.range = keeps ? std::clamp<int64_t>(args.items / (kCtasEach * multiprocessors), 1, kMostItems) : 1;
    return args;
}

KernelRequest cells_request(const Problem& problem, const CellTile& tile, const Epilogue& epilogue,
                            const ResultForm& form) {
    Prelude prelude;
    const int64_t outputs = tile.cell[0] * tile.cell[1] * tile.cell[2] * tile.channels;
    prelude.add(output_source(problem, epilogue, form, outputs))
        .flag("kAddsAbsentBias", false)
        .extents("kCell", tile.cell)
        .extents("kStride", out_stride(problem))
        .constant("kKernelD", problem.kernel[0])
        .constant("kPlaneTaps", problem.kernel[1] * problem.kernel[2])
        .constant("kInChannels", in_channels(problem))
        .constant("kOutChannels", out_channels(problem))
        .constant("kGroups", problem.groups)
        .constant("kThreadChannels", tile.channels)
        .constant("kPack", tile.pack)
        .constant("kCtas", tile.ctas)
        .constant("kLanes", tile.lanes)
        .constant("kSpace", tile_space(problem))
        .constant("kChunk", tile.chunk)
        .flag("kSplitsChains", tile.splits_chains)
        .flag("kChannelsLast", problem.channels_last())
        .constant("kThreads", kThreads)
        .add(offset_types(problem));
    add_window(prelude, problem, tile.cell);
    if (is_fwd(problem)) return {"cells.cuh", prelude.str(), "cells", 0};
    prelude.extents("kInStride", problem.stride).constant("kVector", vector_voxels(problem, tile.cell[2]));
    return {"cells_bwd_data.cuh", prelude.str(), "cells_bwd_data", 0};
}

} // namespace tconv3d::cuda
