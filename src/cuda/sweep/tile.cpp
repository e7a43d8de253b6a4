#include "cuda/sweep/tile.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {

namespace {

/// Registers of a consumer for sums, for where rows begin, and for what is the same with every tile.
int64_t kept_registers(const SweepTile& tile) {
    constexpr int64_t kOthers = 22;
    return tile.warpgroup_tiles() * (tile.fixed_channels / 2 + 2) + kOthers;
}

} // namespace

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

int64_t sweep_lines(const SweepTile& tile) {
    return tile.row_cells == 1 ? tile.height / 2 : tile.height;
}

int64_t sweep_line_steps(const SweepTile& tile) {
    return tile.row_cells == 1 ? 1 : tile.row_cells / 2;
}

int64_t sweep_row_registers(const SweepTile& tile) {
    return SweepThreads::kMostConsumerRegisters - kept_registers(tile);
}

int64_t sweep_consumer_registers(const SweepTile& tile) {
    constexpr int64_t kLeast = 128, kSpare = 8; // threads begin with 128, and producers need no more
    const SweepIteration iteration = sweep_iteration(tile);
    const int64_t products = iteration.lines * sweep_line_steps(tile) * tile.warpgroup_tiles();
    const int64_t needed = round_up(kept_registers(tile) + 2 * 4 * cuts(products, iteration.groups) + kSpare, 8);
    return std::clamp(needed, kLeast, int64_t{SweepThreads::kMostConsumerRegisters});
}

SweepIteration sweep_iteration(const SweepTile& tile) {
    // A group is long enough to hide how long rows take from shared memory to registers.
    constexpr int64_t kGroupClocks = 128, kLeastClocks = 16, kMostProducts = 64;
    const int64_t clocks = std::max(tile.fixed_channels / 2, kLeastClocks);
    const int64_t most = std::min(sweep_row_registers(tile) / (2 * 4), cuts(kGroupClocks, clocks));
    constexpr double kGain = 1.25; // that is worth a longer iteration
    SweepIteration best = {1, 2};
    double best_size = 0;
    for (int64_t lines = 1; lines <= sweep_lines(tile); ++lines) {
        const int64_t products = lines * sweep_line_steps(tile) * tile.warpgroup_tiles();
        if (sweep_lines(tile) % lines != 0 || products < 2) continue;
        const int64_t groups = 2 * cuts(products, 2 * most);
        const double size = static_cast<double>(products) / static_cast<double>(groups);
        if (groups > products || (best_size > 0 && (size < kGain * best_size || products > kMostProducts))) continue;
        best = {lines, groups};
        best_size = size;
    }
    return best;
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

bool moves_pieces(const Problem& problem, const SweepTile& tile) {
    return !problem.channels_last() && bytes_per_element(problem.dtype) == 2 &&
           sweep_plane(problem, tile).phases() <= SweepPiece::kMostPhases;
}

int64_t moved_piece_begin(const Problem& problem, const SweepTile& tile) {
    constexpr int64_t kElements = 8; // of 16 bytes
    if (tile.any_rows || !moves_pieces(problem, tile)) return -1;
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    const SweepPlane plane = sweep_plane(problem, tile);
    const SweepPiece piece = {plane.phases(), plane.copies()};
    // From a row, a block of taps and a piece to the next one.
    const int64_t steps[] = {roles.moved[2], tile.taps[2] < problem.kernel[2] ? tile.taps[2] * roles.dilation[2] : 0,
                             int64_t{2} * piece.words() * piece.phases};
    if (std::any_of(std::begin(steps), std::end(steps), [](int64_t step) { return step % kElements != 0; })) return -1;
    return (kElements - roles.padding[2] % kElements) % kElements;
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
            problem.batch,
            cuts(roles.fixed[1], tile.height),
            cuts(roles.fixed[2], int64_t{sweep_plane(problem, tile).tile_w()}),
            sweep_slices(problem, tile),
            tile.splits};
}

} // namespace tconv3d::cuda
