#include "cuda/reduction/tile.hpp"

#include "core/cuts.hpp"

namespace tconv3d::cuda {
namespace {

/// The steps along each dimension, 1 where there is only one to be counted, since that step is never taken.
Extents steps_taken(const Extents& steps, const Extents& counts) {
    Extents taken = steps;
    for (size_t i = 0; i < 3; ++i)
        if (counts[i] == 1) taken[i] = 1;
    return taken;
}

bool are_whole_vectors(int64_t elements, const Problem& problem) {
    return elements * bytes_per_element(problem.dtype) % 16 == 0;
}

StagedTensor staged(const Problem& problem, const StagedBox& box, int64_t channels, int64_t zeros, bool aligned) {
    return {box,
            static_cast<int>(channels),
            static_cast<int>(zeros),
            static_cast<int>(bytes_per_element(problem.dtype)),
            problem.channels_last(),
            aligned,
            static_cast<int>(reduction_parts(problem))};
}

/// Whether runs that are channels of a voxel are aligned: those of a group and those of a tile must be whole vectors.
bool are_channels_aligned(const Problem& problem, int64_t group_channels, int64_t tile_channels) {
    return are_whole_vectors(group_channels, problem) && are_whole_vectors(tile_channels, problem);
}

} // namespace

std::string ReductionTile::str() const {
    return std::to_string(src_channels) + " x " + std::to_string(dst_channels) + " channels x " + tconv3d::str(taps) +
           " taps, " + tconv3d::str(box) + " voxels, " + std::to_string(row_warps) + " x " +
           std::to_string(column_warps()) + " warps, " + std::to_string(splits) + " splits";
}

int64_t ReductionTile::warp_columns() const {
    return cuts(block_taps() * (dst_channels / 8), column_warps());
}

Extents reduction_stride(const Problem& problem) {
    return steps_taken(problem.stride, problem.src);
}

Extents reduction_dilation(const Problem& problem) {
    return steps_taken(problem.dilation, problem.kernel);
}

int64_t reduction_parts(const Problem& problem) {
    return problem.dtype == DType::f32 && problem.math == MathMode::full ? 2 : 1;
}

int64_t step_voxels(const Problem& problem) {
    return 32 / bytes_per_element(problem.dtype);
}

int64_t box_steps(const Problem& problem, const ReductionTile& tile) {
    return cuts(tile.box_voxels(), step_voxels(problem));
}

StagedTensor staged_src(const Problem& problem, const ReductionTile& tile) {
    const StagedBox box = {static_cast<int>(tile.box[0]), static_cast<int>(tile.box[1]), static_cast<int>(tile.box[2]),
                           1};
    const int64_t zeros = box_steps(problem, tile) * step_voxels(problem) - tile.box_voxels();
    const bool aligned = problem.channels_last()
                             ? are_channels_aligned(problem, problem.src_channels_per_group(), tile.src_channels)
                             : are_whole_vectors(problem.src[2], problem) && are_whole_vectors(tile.box[2], problem);
    return staged(problem, box, tile.src_channels, zeros, aligned);
}

StagedTensor staged_dst(const Problem& problem, const ReductionTile& tile) {
    const Extents stride = reduction_stride(problem), dilation = reduction_dilation(problem);
    const auto met = [&](size_t i) {
        return static_cast<int>(met_extent(tile.box[i], stride[i], tile.taps[i], dilation[i]));
    };
    const StagedBox box = {met(0), met(1), met(2), static_cast<int>(std::min<int64_t>(stride[2], met(2)))};
    // A row begins at s·i − p + j·d, with i and j the first voxel of a box and the first tap of a block.
    const bool rows_aligned =
        are_whole_vectors(problem.dst()[2], problem) && are_whole_vectors(problem.padding[2], problem) &&
        (tile.box[2] == problem.src[2] || are_whole_vectors(stride[2] * tile.box[2], problem)) &&
        (tile.taps[2] == problem.kernel[2] || are_whole_vectors(dilation[2] * tile.taps[2], problem));
    const bool aligned = problem.channels_last()
                             ? are_channels_aligned(problem, problem.dst_channels_per_group(), tile.dst_channels)
                             : rows_aligned;
    return staged(problem, box, tile.dst_channels, 0, aligned);
}

bool is_volume_aligned(const Problem& problem, int64_t voxels) {
    return are_whole_vectors(voxels, problem);
}

int64_t reduction_shared_bytes(const Problem& problem, const ReductionTile& tile) {
    const StagedTensor src = staged_src(problem, tile), dst = staged_dst(problem, tile);
    constexpr int64_t kTableEntry = 4, kStages = 2;
    const int64_t raw = copies_positions(src, dst) ? 0 : src.raw_bytes() + dst.raw_bytes();
    return box_steps(problem, tile) * step_voxels(problem) * kTableEntry + kStages * (src.bytes() + dst.bytes() + raw);
}

int64_t split_items(const Problem& problem, const ReductionTile& tile) {
    int64_t items = problem.groups * cuts(problem.src_channels_per_group(), tile.src_channels) *
                    cuts(problem.dst_channels_per_group(), tile.dst_channels);
    for (size_t i = 0; i < 3; ++i) items *= cuts(problem.kernel[i], tile.taps[i]);
    return items;
}

VoxelExtents image_tiles(const Problem& problem, const ReductionTile& tile) {
    return {cuts(problem.src[0], tile.box[0]), cuts(problem.src[1], tile.box[1]), cuts(problem.src[2], tile.box[2])};
}

int64_t all_tiles(const Problem& problem, const ReductionTile& tile) {
    const VoxelExtents tiles = image_tiles(problem, tile);
    return problem.batch * tiles.d * tiles.h * tiles.w;
}

int64_t split_sums(const Problem& problem) {
    return problem.taps() * problem.src_channels * round_up(problem.dst_channels_per_group(), 2);
}

} // namespace tconv3d::cuda
