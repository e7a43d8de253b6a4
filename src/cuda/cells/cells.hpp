#pragma once

#include <cstdint>
#include <string>

#include "cuda/kernels/shared/cells.cuh"
#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"
#include "cuda/source/output_source.hpp"

/// The family whose threads own blocks of outputs with phases known at compile time (kernels/cells.cuh): for depthwise
/// problems and few channels, which are bound by memory, and for whatever the tensor cores do not take.
namespace tconv3d::cuda {

// ---- fwd and bwd_data: a correlation ----

struct CellTile {
    Extents cell;        ///< outputs of a thread, multiples of the strides in fwd
    int64_t channels;    ///< output channels of a thread
    int64_t lanes;       ///< threads that share a cell, each with channels of its own
    int64_t pack;        ///< neighbouring channels of a thread, in channels-last of depthwise groups; 1 elsewhere
    int64_t chunk;       ///< input channels whose weights are staged together
    bool splits_chains;  ///< each chunk is summed by itself
    int64_t ctas;        ///< that share a multiprocessor, and so limit registers; 1 where nothing does
    double microseconds; ///< estimated, for the whole problem

    std::string str() const;
};

/// The tile with the least estimated time. microseconds is 0 when none fits.
CellTile choose_cell_tile(const Problem& problem, int multiprocessors);

Answer answer_cells(const Question& question);

/// All but the tensors and what follows from their addresses.
CellArguments cells_arguments(const Problem& problem, const CellTile& tile, int multiprocessors);

KernelRequest cells_request(const Problem& problem, const CellTile& tile, const Epilogue& epilogue,
                            const ResultForm& form);

} // namespace tconv3d::cuda
