#include "cuda/cells/bwd_weight.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <utility>

#include "cuda/cells/window.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"
#include "cuda/splits/add_splits.hpp"

namespace tconv3d::cuda {
namespace {

class CellsBwdWeight final : public Kernel {
public:
    CellsBwdWeight(const Problem& problem, const Device& device, const CellWeightTile& tile)
        : tile_(tile), sum_(device, [problem, tile] { return cells_bwd_weight_request(problem, tile); }),
          add_(problem, device, cell_split_sums(problem, tile)), sum_args_(cells_bwd_weight_arguments(problem, tile)),
          workspace_bytes_(cuda::workspace_bytes(problem, tile)),
          bias_offset_(problem.weight_elements() * compute_bytes(problem)) {}

    size_t workspace_bytes() const override { return static_cast<size_t>(workspace_bytes_); }

    /// Loads both kernels side by side: each is compiled for a while when it is new.
    void load(const Arguments&, void* stream) const override {
        std::future<void> adding;
        if (!add_.function().is_loaded()) adding = std::async([&] { add_.function().get(stream); });
        sum_.get(stream);
        if (adding.valid()) adding.get();
    }

    void compile(bool) const override {
        std::future<void> adding = std::async([&] { add_.function().compile(); });
        sum_.compile();
        adding.get();
    }

    void execute(const Arguments& arguments, void* stream, void* workspace) const override {
        CellBwdWeightArguments sum = sum_args_;
        sum.src = arguments.src;
        sum.grad_dst = arguments.grad_dst;
        sum.partials = workspace;
        sum.sums_bias = arguments.grad_bias != nullptr ? 1 : 0;
        std::array<void*, 1> sum_arguments = {&sum};
        launch(*sum_.get(stream), {std::min(sum.cut.items, kMostBlocks)}, {tile_.threads}, sum_arguments.data(),
               stream);
        add_.launch(workspace, static_cast<const char*>(workspace) + bias_offset_, arguments, stream);
    }

    std::string describe() const override { return tile_.str(); }

private:
    CellWeightTile tile_;
    LoadedFunction sum_;
    AddSplits add_;
    CellBwdWeightArguments sum_args_;
    int64_t workspace_bytes_;
    int64_t bias_offset_; ///< in bytes: the sums of the bias lie behind those of the weight
};

} // namespace

std::string CellWeightTile::str() const {
    const std::string pairs = pack > 1 ? std::to_string(pack) + " pairs of"
                                       : std::to_string(src_channels) + " x " + std::to_string(dst_channels);
    std::string text = "sums all taps of " + pairs + " channels over cells of " + tconv3d::str(cell) +
                       " voxels in a thread for each tap along d";
    if (lanes > 1) text += ", " + std::to_string(lanes * pack) + " channels of dst side by side";
    return text + "; " + std::to_string(splits) + (splits == 1 ? " split" : " splits");
}

Answer answer_cells_bwd_weight(const Question& question) {
    const Problem& problem = question.problem;
    std::string reason = reject_cell_weights(problem);
    if (!reason.empty()) return {std::move(reason), {}};
    const CellWeightTile tile = choose_cell_weight_tile(problem, question.device.multiprocessors);
    if (tile.microseconds <= 0)
        return {
            "the sums of a thread do not fit in registers: " + std::to_string(problem.kernel[1] * problem.kernel[2]) +
                " taps along h and w in " + name(problem.dtype),
            {}};
    const auto prepare = [problem, tile, device = question.device] {
        return std::make_unique<CellsBwdWeight>(problem, device, tile);
    };
    return {"", {{"", tile.microseconds, prepare}}};
}

KernelRequest cells_bwd_weight_request(const Problem& problem, const CellWeightTile& tile) {
    Prelude prelude;
    prelude.add(element_types(problem))
        .extents("kCell", tile.cell)
        .extents("kInStride", problem.stride)
        .constant("kPlaneTaps", problem.kernel[1] * problem.kernel[2])
        .constant("kSrcChannels", problem.src_channels_per_group())
        .constant("kDstChannels", problem.dst_channels_per_group())
        .constant("kGroups", problem.groups)
        .constant("kSrcBlock", tile.src_channels)
        .constant("kDstBlock", tile.dst_channels)
        .constant("kPack", tile.pack)
        .constant("kCtas", tile.ctas)
        .constant("kLanes", tile.lanes)
        .flag("kSplitsChains", tile.chain > 0)
        .constant("kChain", tile.chain)
        .constant("kVector", vector_voxels(problem, tile.cell[2]))
        .flag("kChannelsLast", problem.channels_last())
        .constant("kThreads", tile.threads)
        .add(offset_types(problem));
    add_window(prelude, problem, tile.cell);
    return {"cells_bwd_weight.cuh", prelude.str(), "cells_bwd_weight", 0};
}

CellBwdWeightArguments cells_bwd_weight_arguments(const Problem& problem, const CellWeightTile& tile) {
    const Extents src = problem.src, dst = problem.dst();
    return {nullptr, nullptr, nullptr, {src[0], src[1], src[2]}, {dst[0], dst[1], dst[2]}, cell_splits(problem, tile),
            0};
}

AddSplitsArguments cell_split_sums(const Problem& problem, const CellWeightTile& tile) {
    const int64_t weights = problem.weight_elements(), channels = problem.dst_channels, pitch = weights + channels;
    return {{nullptr, nullptr, tile.splits, pitch, 1, 1, weights, weights},
            {nullptr, nullptr, tile.splits, pitch, 1, 1, channels, channels}};
}

} // namespace tconv3d::cuda
