#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/index_map.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/driver.hpp"
#include "tconv3d/cuda.hpp"

/// The family whose threads own blocks of outputs with phases known at compile time (kernels/cells.cuh): for depthwise
/// problems and few channels, which are bound by memory, and for whatever the tensor cores do not take.
namespace tconv3d::cuda {

/// Along one dimension: a src index that a cell reads, and the pairs of an output of the cell and a tap that use it.
struct CellDelta {
    int64_t delta; ///< from (cell / stride) · m
    std::vector<std::array<int64_t, 2>> uses;
};

/// Of cells of so many outputs, whole strides that begin with the first output. In rising order of delta; empty when no
/// tap reaches the cell.
std::vector<CellDelta> cell_deltas(const Axis& axis, int64_t cell);

struct CellTile {
    Extents cell;        ///< outputs of a thread, multiples of the strides
    int64_t channels;    ///< output channels of a thread
    int64_t lanes;       ///< threads that share a cell, a channel each
    int64_t chunk;       ///< input channels whose weights are staged together
    bool splits_chains;  ///< each chunk is summed by itself
    double microseconds; ///< estimated, for the whole problem

    std::string str() const;
};

/// The tile with the least estimated time. microseconds is 0 when none fits.
CellTile choose_cell_tile(const Problem& problem, int multiprocessors);

std::string reject_cells(const Problem& problem, const Epilogue& epilogue, const Device& device);
double cells_cost(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::unique_ptr<Kernel> prepare_cells(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                      const std::string& variant);

/// kernels/cells.cuh's CellArgs, byte for byte.
struct CellArgs {
    const void* src;
    const void* weight;
    Extents src_extents;
    Extents dst_extents;
    Extents cells;
    int64_t blocks;
    int64_t items;
    int64_t aligned;
};

/// All but the tensors and what follows from their addresses.
CellArgs cells_arguments(const Problem& problem, const CellTile& tile);

KernelRequest cells_request(const Problem& problem, const CellTile& tile, const Epilogue& epilogue, bool has_bias,
                            bool saves_preactivation);

} // namespace tconv3d::cuda
