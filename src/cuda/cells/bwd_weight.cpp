#include "cuda/cells/bwd_weight.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <utility>

#include "core/cuts.hpp"
#include "cuda/cells/window.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kAddThreads = 512;

class CellsBwdWeight final : public Kernel {
public:
    CellsBwdWeight(const Problem& problem, const Device& device, const CellWeightTile& tile)
        : tile_(tile), sum_(device, [problem, tile] { return cells_bwd_weight_request(problem, tile); }),
          add_(device, [problem] { return cells_add_splits_request(problem); }),
          sum_args_(cells_bwd_weight_arguments(problem, tile)), add_args_(cells_add_splits_arguments(problem, tile)),
          workspace_bytes_(cuda::workspace_bytes(problem, tile)) {}

    size_t workspace_bytes() const override { return static_cast<size_t>(workspace_bytes_); }

    /// Both kernels side by side: each is compiled for a while when it is new.
    void load(const Arguments&, void* stream) const override {
        std::future<void> adding;
        if (!add_.is_loaded()) adding = std::async([&] { add_.get(stream); });
        sum_.get(stream);
        if (adding.valid()) adding.get();
    }

    void compile(bool) const override {
        std::future<void> adding = std::async([&] { add_.compile(); });
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
        AddSplitsArguments add = add_args_;
        add.partials = workspace;
        add.grad_weight = arguments.grad_weight;
        add.grad_bias = arguments.grad_bias;
        std::array<void*, 1> add_arguments = {&add};
        const int64_t blocks = cuts(add.weights + add.channels, kAddColumns);
        launch(*add_.get(stream), {std::min(blocks, kMostBlocks)}, {kAddThreads}, add_arguments.data(), stream);
    }

    std::string describe() const override { return tile_.str(); }

private:
    CellWeightTile tile_;
    LoadedFunction sum_;
    LoadedFunction add_;
    CellBwdWeightArguments sum_args_;
    AddSplitsArguments add_args_;
    int64_t workspace_bytes_;
};

} // namespace

std::string CellWeightTile::str() const {
    std::string text = "sums all taps of " + std::to_string(src_channels) + " x " + std::to_string(dst_channels) +
                       " channels over cells of " + tconv3d::str(cell) + " voxels in a thread for each tap along d";
    if (lanes > 1) text += ", " + std::to_string(lanes) + " channels of dst side by side";
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

KernelRequest cells_add_splits_request(const Problem& problem) {
    const std::string prelude = Prelude().add(element_types(problem)).constant("kThreads", kAddThreads).str();
    return {"cells_add_splits.cuh", prelude, "cells_add_splits", 0};
}

CellBwdWeightArguments cells_bwd_weight_arguments(const Problem& problem, const CellWeightTile& tile) {
    const Extents src = problem.src, dst = problem.dst();
    return {nullptr, nullptr, nullptr, {src[0], src[1], src[2]}, {dst[0], dst[1], dst[2]}, cell_splits(problem, tile),
            0};
}

AddSplitsArguments cells_add_splits_arguments(const Problem& problem, const CellWeightTile& tile) {
    return {nullptr, nullptr, nullptr, problem.weight_elements(), problem.dst_channels, tile.splits};
}

} // namespace tconv3d::cuda
