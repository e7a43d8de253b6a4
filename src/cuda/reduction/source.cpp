#include <algorithm>

#include "core/cuts.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/reduction/reduction.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"

namespace tconv3d::cuda {
namespace {

Prelude common_constants(const Problem& problem) {
    Prelude prelude;
    prelude.add("#include \"base/storage.cuh\"\n")
        .add(element_types(problem))
        .flag("kChannelsLast", problem.channels_last())
        .constant("kThreads", ReductionTile::kThreads);
    return prelude;
}

/// Threads side by side on neighbouring channels: a power of two, no more than a warp.
int64_t channel_lanes(const Problem& problem) {
    int64_t lanes = 1;
    while (problem.channels_last() && lanes < std::min<int64_t>(problem.dst_channels, 32)) lanes *= 2;
    return lanes;
}

} // namespace

KernelRequest reduction_request(const Problem& problem, const ReductionTile& tile) {
    // Of split fp32: in sums of two the products' own error is the larger one, and one more step takes registers.
    const int64_t summed_steps = reduction_parts(problem) == 2 ? 2 : 1;
    Prelude prelude = common_constants(problem);
    prelude.extents("kKernel", problem.kernel)
        .constant("kGroups", problem.groups)
        .constant("kSrcChannels", problem.src_channels_per_group())
        .constant("kDstChannels", problem.dst_channels_per_group())
        .extents("kStride", reduction_stride(problem))
        .extents("kPadding", problem.padding)
        .extents("kDilation", reduction_dilation(problem))
        .flag("kSrcAligned", staged_src(problem, tile).aligned)
        .flag("kDstAligned", staged_dst(problem, tile).aligned)
        .flag("kSrcVolumeAligned", is_volume_aligned(problem, problem.src_voxels()))
        .flag("kDstVolumeAligned", is_volume_aligned(problem, problem.dst_voxels()))
        .constant("kParts", reduction_parts(problem))
        .constant("kSummedSteps", summed_steps)
        .constant("kTileSrcChannels", tile.src_channels)
        .constant("kTileDstChannels", tile.dst_channels)
        .extents("kBlockTaps", tile.taps)
        .extents("kBox", tile.box)
        .constant("kRowWarps", tile.row_warps)
        .constant("kCtas", tile.ctas)
        .flag("kStoresSplits", tile.splits > 1);
    return {"reduction.cuh", prelude.str(), "reduction", reduction_shared_bytes(problem, tile)};
}

KernelRequest reduction_bias_request(const Problem& problem) {
    return {"reduction_bias.cuh", common_constants(problem).constant("kLanes", channel_lanes(problem)).str(),
            "reduction_bias", 0};
}

ReductionArguments reduction_arguments(const Problem& problem, const ReductionTile& tile) {
    return {nullptr,
            nullptr,
            nullptr,
            problem.batch,
            voxel_extents(problem.src),
            voxel_extents(problem.dst()),
            image_tiles(problem, tile),
            all_tiles(problem, tile),
            tile.splits};
}

/// As many parts as give each multiprocessor a few CTAs, if each thread has something to sum.
ReductionBiasArguments reduction_bias_arguments(const Problem& problem, const Device& device) {
    constexpr int64_t kCtas = 8;
    const int64_t lanes = channel_lanes(problem), blocks = cuts(problem.dst_channels, lanes);
    const int64_t wanted = cuts(kCtas * device.multiprocessors, blocks);
    const int64_t useful = problem.dst_voxels() * lanes / ReductionTile::kThreads;
    return {nullptr,
            nullptr,
            problem.batch,
            problem.dst_channels,
            problem.dst_voxels(),
            std::clamp<int64_t>(wanted, 1, std::max<int64_t>(useful, 1))};
}

AddSplitsArguments reduction_split_sums(const Problem& problem, int64_t splits, const Device& device) {
    const int64_t channels = problem.dst_channels, columns = problem.dst_channels_per_group();
    const bool stores_splits = splits > 1;
    return {{nullptr, nullptr, splits, split_sums(problem), stores_splits ? problem.taps() : 0, problem.src_channels,
             columns, round_up(columns, 2)},
            {nullptr, nullptr, reduction_bias_arguments(problem, device).parts, channels, 1, 1, channels, channels}};
}

int64_t reduction_bias_ctas(const Problem& problem, const Device& device) {
    return cuts(problem.dst_channels, channel_lanes(problem)) * reduction_bias_arguments(problem, device).parts;
}

} // namespace tconv3d::cuda
