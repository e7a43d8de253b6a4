#pragma once

#include <cstdint>
#include <string>

#include "cuda/kernels/shared/cells.cuh"
#include "cuda/kernels/shared/split_sums.cuh"
#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"

/// bwd_weight of the family `cells` (kernels/cells_bwd_weight.cuh): for few pairs of channels in a group.
namespace tconv3d::cuda {

/// How the sums and the voxels of src are given to threads, CTAs and splits.
struct CellWeightTile {
    Extents cell;         ///< voxels of src whose window of grad_dst is loaded together; one slice
    int64_t src_channels; ///< of a thread, which sums all pairs with its channels of dst
    int64_t dst_channels;
    int64_t pack;        ///< neighbouring channels in place of one of dst, each with its own of src; 1 elsewhere
    int64_t lanes;       ///< threads that share a cell, a channel or pack of dst each
    int64_t threads;     ///< of a CTA: as many for each tap along D
    int64_t chain;       ///< slices that are summed by themselves; 0 where sums need not be cut
    int64_t splits;      ///< ranges of voxels with partial sums of their own
    int64_t ctas;        ///< that share a multiprocessor, and so limit registers; 1 where nothing does
    double microseconds; ///< estimated, for the whole problem; 0 when no tile fits

    std::string str() const;
};

/// Why no tile is looked for; empty where one is.
std::string reject_cell_weights(const Problem& problem);

/// The tile with the least estimated time.
CellWeightTile choose_cell_weight_tile(const Problem& problem, int multiprocessors);

/// Blocks of channels: each has CTAs of its own.
int64_t channel_blocks(const Problem& problem, const CellWeightTile& tile);
CellSplits cell_splits(const Problem& problem, const CellWeightTile& tile);
int64_t workspace_bytes(const Problem& problem, const CellWeightTile& tile);

Answer answer_cells_bwd_weight(const Question& question);

KernelRequest cells_bwd_weight_request(const Problem& problem, const CellWeightTile& tile);

/// All but the tensors.
CellBwdWeightArguments cells_bwd_weight_arguments(const Problem& problem, const CellWeightTile& tile);
AddSplitsArguments cell_split_sums(const Problem& problem, const CellWeightTile& tile);

} // namespace tconv3d::cuda
