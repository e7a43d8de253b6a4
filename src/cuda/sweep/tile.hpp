#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/shared/sweep.cuh"
#include "cuda/runtime/driver.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cuda {

/// What a CTA of kernels/sweep.cuh owns, and how its work is divided.
struct SweepTile {
    bool moves_src;          ///< whether src is the tensor that taps move, else grad_dst
    int64_t fixed_channels;  ///< columns of the products, a multiple of 8
    int64_t moved_channels;  ///< rows of the products are these for each tap of a block
    Extents taps;            ///< of a block
    int64_t height;          ///< rows of a plane of the fixed tensor that are staged at a time
    int64_t row_cells;       ///< cells of 16 bytes in each of them: 1, or an even number
    bool copies;             ///< whether fp32 of the moved tensor is copied, and rounded by those who multiply it
    int64_t stages = 2;      ///< of the fixed tensor
    int64_t splits = 1;      ///< of all slices of all tiles of all images
    double microseconds = 0; ///< estimated, for the whole problem
    bool any_rows = false;   ///< Rows of the fixed tensor are not copied faster where 16 bytes divide them.

    std::string str() const;

    int64_t rows() const { return taps[0] * taps[1] * taps[2] * moved_channels; }
    /// m64 tiles of a warpgroup.
    int64_t warpgroup_tiles() const {
        return (rows() + SweepThreads::kConsumers / 2 - 1) / (SweepThreads::kConsumers / 2);
    }
};

/// The two tensors by their roles. Moved voxel = stride · fixed voxel − padding + tap · dilation; where src is moved,
/// the taps are counted from the last one.
struct SweepRoles {
    Extents fixed, moved;                   ///< extents
    int64_t fixed_channels, moved_channels; ///< of a group
    Extents stride, padding, dilation;
};
SweepRoles sweep_roles(const Problem& problem, bool moves_src);

/// Whether the channels of a group are whole chunks of 16 bytes, side by side in memory.
bool has_chunks(const Problem& problem, int64_t channels);

/// An iteration of the consumers' loop (kernels/sweep/multiply.cuh): so many lines of a slice, whose products are
/// multiplied in so many groups. A line is a row of the tile, or two rows where each has one cell.
struct SweepIteration {
    int64_t lines, groups;
};
SweepIteration sweep_iteration(const SweepTile& tile);
/// Lines of a slice, and k steps of a line.
int64_t sweep_lines(const SweepTile& tile);
int64_t sweep_line_steps(const SweepTile& tile);

/// Registers that a consumer may have for rows on their way to a product.
int64_t sweep_row_registers(const SweepTile& tile);
/// Registers that it gets. Producers get the others, to have more loads under way.
int64_t sweep_consumer_registers(const SweepTile& tile);

SweepPlane sweep_plane(const Problem& problem, const SweepTile& tile);
SweepDepth sweep_depth(const Problem& problem, const SweepTile& tile);
int64_t sweep_shared_bytes(const Problem& problem, const SweepTile& tile);

/// Whether the cells of rows of the fixed tensor are 16 aligned bytes.
bool has_aligned_cells(const Problem& problem, const SweepTile& tile);
/// Whether rows of the moved tensor are brought in pieces (SweepPiece).
bool moves_pieces(const Problem& problem, const SweepTile& tile);
/// The element of 16 bytes with which every such piece begins; -1 if they differ in it.
int64_t moved_piece_begin(const Problem& problem, const SweepTile& tile);

/// CTAs of a split.
int64_t sweep_items(const Problem& problem, const SweepTile& tile);
/// Slices of all tiles of all images.
int64_t sweep_slices(const Problem& problem, const SweepTile& tile);
SweepArguments sweep_arguments(const Problem& problem, const SweepTile& tile);

/// The tiles with the least estimated time, at most so many, the best first; none where no tile fits. Takes problems
/// that answer_sweep does not refuse before.
std::vector<SweepTile> best_sweep_tiles(const Problem& problem, const Device& device, size_t most);

/// The few tiles that serve the problem's layer whatever its size (cuda/select/layer.hpp), the best first.
std::vector<SweepTile> any_size_sweep_tiles(const Problem& problem, const Device& device);

} // namespace tconv3d::cuda
