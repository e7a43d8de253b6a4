#include "cuda/outer/tile.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {
namespace {

/// Of every stride-th voxel of a tensor, `w` × `h` at a time with so many channels.
tensorcore::MapShape map_shape(const Problem& problem, const Extents& extents, int64_t channels,
                               const OuterPlane& plane, const Extents& stride) {
    const auto [d, h, w] = extents;
    return {{channels, w, h, d, problem.batch},
            {1, channels, w * channels, h * w * channels, d * h * w * channels},
            {plane.atom_channels(), plane.w, plane.h, 1, 1},
            plane.voxel_bytes(),
            {1, stride[2], stride[1], 1, 1}};
}

/// Raw boxes of every stride-th row of a tensor.
tensorcore::MapShape raw_map_shape(const Problem& problem, const Extents& extents, int64_t channels,
                                   const OuterRaw& raw, const Extents& stride) {
    const auto [d, h, w] = extents;
    return {{w, channels, h, d, problem.batch},
            {1, d * h * w, w, h * w, channels * d * h * w},
            {raw.w, raw.channels, raw.h, 1, 1},
            0,
            {1, 1, stride[1], 1, 1}};
}

int src_tile_channels(const OuterTile& tile) {
    return static_cast<int>(tile.rows_are_dst ? tile.columns : kOuterRows);
}
int dst_tile_channels(const OuterTile& tile) {
    return static_cast<int>(tile.rows_are_dst ? kOuterRows : tile.columns);
}

} // namespace

std::string OuterTile::str() const {
    return std::to_string(kOuterRows) + (rows_are_dst ? " dst x " : " src x ") + std::to_string(columns) +
           (rows_are_dst ? " src channels x " : " dst channels x ") + std::to_string(block_taps()) + " taps, " +
           std::to_string(height) + " x " + std::to_string(width) + " voxels, " + std::to_string(stages) + " stages, " +
           (raw_stages > 0 ? std::to_string(raw_stages) + " raw boxes, " : "") + std::to_string(splits) + " splits";
}

OuterPlane outer_src_plane(const Problem& problem, const OuterTile& tile) {
    return {src_tile_channels(tile), static_cast<int>(tile.height), static_cast<int>(tile.width),
            problem.channels_last()};
}

OuterPlane outer_dst_plane(const Problem& problem, const OuterTile& tile) {
    const OuterHalo halo = outer_halo(problem);
    return {dst_tile_channels(tile), static_cast<int>(tile.height + halo.h), static_cast<int>(tile.width + halo.w),
            problem.channels_last()};
}

OuterRaw outer_src_raw(const Problem& problem, const OuterTile& tile) {
    const OuterPlane plane = outer_src_plane(problem, tile);
    return {plane.channels, plane.h, static_cast<int>(odd_eights(plane.w))};
}

OuterRaw outer_dst_raw(const Problem& problem, const OuterTile& tile) {
    const OuterPlane plane = outer_dst_plane(problem, tile);
    return {plane.channels, plane.h, static_cast<int>(outer_raw_rows(problem, tile.width).width)};
}

int64_t outer_raw_box_bytes(const Problem& problem, const OuterTile& tile) {
    if (problem.channels_last()) return 0;
    return round_up(std::max(outer_src_raw(problem, tile).bytes(), outer_dst_raw(problem, tile).bytes()), 128);
}

int64_t most_planes(const std::vector<OuterTapBlock>& blocks) {
    size_t most = 0;
    for (const OuterTapBlock& block : blocks) most = std::max(most, block.planes.size());
    return static_cast<int64_t>(most);
}

int64_t most_raw_boxes(const std::vector<OuterTapBlock>& blocks) {
    size_t most = 0;
    for (const OuterTapBlock& block : blocks) most = std::max(most, block.raw_boxes().size());
    return static_cast<int64_t>(most);
}

int64_t outer_stage_bytes(const Problem& problem, const OuterTile& tile, int64_t planes) {
    return outer_src_plane(problem, tile).bytes() + planes * outer_dst_plane(problem, tile).bytes();
}

int64_t outer_shared_bytes(const Problem& problem, const OuterTile& tile) {
    return OuterPlane::kSwizzlePeriod + tile.raw_stages * outer_raw_box_bytes(problem, tile) +
           tile.stages * outer_stage_bytes(problem, tile, most_planes(outer_tap_blocks(problem, tile.block_taps())));
}

int64_t outer_items(const Problem& problem, const OuterTile& tile) {
    const int64_t rows = tile.rows_are_dst ? problem.dst_channels_per_group() : problem.src_channels_per_group();
    const int64_t columns = tile.rows_are_dst ? problem.src_channels_per_group() : problem.dst_channels_per_group();
    const int64_t taps = problem.kernel[0] * problem.kernel[1] * problem.kernel[2];
    return problem.groups * (rows / kOuterRows) * (columns / tile.columns) * cuts(taps, tile.block_taps());
}

int64_t outer_boxes(const Problem& problem, const OuterTile& tile) {
    return problem.batch * problem.src[0] * cuts(problem.src[1], tile.height) * cuts(problem.src[2], tile.width);
}

OuterArguments outer_arguments(const Problem& problem, const OuterTile& tile) {
    return {nullptr,
            problem.src[0],
            cuts(problem.src[1], tile.height),
            cuts(problem.src[2], tile.width),
            outer_boxes(problem, tile),
            tile.splits};
}

tensorcore::MapShape outer_src_map(const Problem& problem, const OuterTile& tile) {
    const Extents every = {1, 1, 1};
    if (!problem.channels_last())
        return raw_map_shape(problem, problem.src, problem.src_channels, outer_src_raw(problem, tile), every);
    return map_shape(problem, problem.src, problem.src_channels, outer_src_plane(problem, tile), every);
}

tensorcore::MapShape outer_dst_map(const Problem& problem, const OuterTile& tile) {
    const Extents stride = reduction_stride(problem);
    if (!problem.channels_last())
        return raw_map_shape(problem, problem.dst(), problem.dst_channels, outer_dst_raw(problem, tile), stride);
    return map_shape(problem, problem.dst(), problem.dst_channels, outer_dst_plane(problem, tile), stride);
}

} // namespace tconv3d::cuda
