#include "cuda/sweep/tile.hpp"

#include "core/cuts.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {

std::string SweepTile::str() const {
    return std::to_string(fixed_channels) + (moves_src ? " dst x " : " src x ") + std::to_string(moved_channels) +
           (moves_src ? " src channels x " : " dst channels x ") + tconv3d::str(taps) + " taps, " +
           std::to_string(height) + " x " + std::to_string(row_cells) + " cells" + (copies ? " copied, " : ", ") +
           std::to_string(stages) + " stages, " + std::to_string(splits) + " splits";
}

SweepRoles sweep_roles(const Problem& problem, bool moves_src) {
    const Extents dilation = reduction_dilation(problem);
    if (!moves_src)
        return {problem.src,
                problem.dst(),
                problem.src_channels_per_group(),
                problem.dst_channels_per_group(),
                reduction_stride(problem),
                problem.padding,
                dilation};
    Extents padding;
    for (size_t i = 0; i < 3; ++i) padding[i] = dilation[i] * (problem.kernel[i] - 1) - problem.padding[i];
    return {problem.dst(), problem.src, problem.dst_channels_per_group(), problem.src_channels_per_group(), {1, 1, 1},
            padding,       dilation};
}

bool has_chunks(const Problem& problem, int64_t channels) {
    return problem.channels_last() && channels * bytes_per_element(problem.dtype) % 16 == 0;
}

SweepPlane sweep_plane(const Problem& problem, const SweepTile& tile) {
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    // What is to be rounded to tf32 is stored by threads, and then channel by channel.
    const bool fixed_chunks = problem.dtype != DType::f32 && has_chunks(problem, roles.fixed_channels);
    const auto narrow = [](int64_t value) { return static_cast<int>(value); };
    return {narrow(tile.height),
            narrow(tile.row_cells),
            narrow(roles.stride[1]),
            narrow(roles.stride[2]),
            narrow(roles.dilation[1]),
            narrow(roles.dilation[2]),
            narrow(tile.taps[1]),
            narrow(tile.taps[2]),
            static_cast<int>(bytes_per_element(problem.dtype)),
            has_chunks(problem, roles.moved_channels) && (tile.copies || problem.dtype != DType::f32),
            fixed_chunks};
}

SweepDepth sweep_depth(const Problem& problem, const SweepTile& tile) {
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    return {static_cast<int>(roles.stride[0]), static_cast<int>(roles.dilation[0]), static_cast<int>(tile.taps[0])};
}

bool has_aligned_cells(const Problem& problem, const SweepTile& tile) {
    return !problem.channels_last() && !tile.any_rows &&
           sweep_roles(problem, tile.moves_src).fixed[2] * bytes_per_element(problem.dtype) % 16 == 0;
}

int64_t sweep_shared_bytes(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    return SweepPlane::kBarrierBytes + tile.stages * plane.fixed_bytes(static_cast<int>(tile.fixed_channels)) +
           int64_t{sweep_depth(problem, tile).slots(static_cast<int>(tile.stages))} *
               plane.slot_bytes(static_cast<int>(tile.moved_channels));
}

int64_t sweep_items(const Problem& problem, const SweepTile& tile) {
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    int64_t items = problem.groups * cuts(roles.fixed_channels, tile.fixed_channels) *
                    cuts(roles.moved_channels, tile.moved_channels);
    for (size_t i = 0; i < 3; ++i) items *= cuts(problem.kernel[i], tile.taps[i]);
    return items;
}

int64_t sweep_slices(const Problem& problem, const SweepTile& tile) {
    const Extents extents = sweep_roles(problem, tile.moves_src).fixed;
    return problem.batch * extents[0] * cuts(extents[1], tile.height) *
           cuts(extents[2], int64_t{sweep_plane(problem, tile).tile_w()});
}

SweepArguments sweep_arguments(const Problem& problem, const SweepTile& tile) {
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    return {nullptr,
            nullptr,
            nullptr,
            voxel_extents(roles.fixed),
            voxel_extents(roles.moved),
            cuts(roles.fixed[1], tile.height),
            cuts(roles.fixed[2], int64_t{sweep_plane(problem, tile).tile_w()}),
            sweep_slices(problem, tile),
            tile.splits};
}

} // namespace tconv3d::cuda
