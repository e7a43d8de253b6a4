#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/index_map.hpp"
#include "cuda/source/prelude.hpp"

/// What a cell reads (kernels/load/cell_window.cuh). A cell is a block of outputs, or of voxels of src in bwd_weight,
/// which reads the gradient of dst as bwd_data does.
namespace tconv3d::cuda {

/// Along one dimension: an index that a cell reads, and the pairs of an output of the cell and a tap that use it.
struct CellShift {
    int64_t shift; ///< from (cell / out_stride) · in_stride · m
    std::vector<std::array<int64_t, 2>> uses;
};

/// The shifts of cells of `cell` outputs, which are whole strides and begin with the first output, in rising order;
/// empty when no tap reaches the cell.
std::vector<CellShift> cell_shifts(const Axis& axis, int64_t cell);

int64_t count_uses(const std::vector<CellShift>& shifts);

/// Voxels of a row that a cell has to itself and that come in one access; 1 where rows do not allow more.
int64_t vector_voxels(const Problem& problem, int64_t cell_w);

/// Numbers of neighbouring channels that a thread may have in channels-last where each is a group of its own: divisors
/// of all channels that are one access. Only 1 elsewhere.
std::vector<int64_t> channel_packs(const Problem& problem);

/// Threads side by side on neighbouring channels, or packs of them, in channels-last: as many as a warp has, or as
/// there are.
int64_t channel_lanes(const Problem& problem, int64_t channels, int64_t pack);

/// Registers that a voxel of a window takes, which is converted where it is multiplied.
int64_t voxel_words(const Problem& problem, int64_t pack);

/// Loads of one row of a window.
int64_t row_loads(const std::vector<CellShift>& w, int64_t vector);

// What a thread has at most.
constexpr int64_t kMostProducts = 512;   ///< unrolled: what NVRTC compiles in a fraction of a second
constexpr int64_t kMostSliceVoxels = 64; ///< in registers, of a window
constexpr int64_t kMostAccess = 16;      ///< bytes that are loaded or stored at once

constexpr int64_t kWarp = 32;

/// What a load of a warp touches, by so many voxels that lie `apart` bytes apart, in multiples of the four sectors that
/// neighbours touch.
double spread(int64_t voxels, int64_t apart);

/// Clocks in which the L1 cache brings a warp's packs, 128 bytes in each.
double pack_clocks(const Problem& problem, int64_t pack);

/// Bytes of a sum.
int64_t compute_bytes(const Problem& problem);

/// Prints the tables of a window.
void add_window(Prelude& prelude, const Problem& problem, const Extents& cell);

/// The types Offset and UnsignedOffset, which count voxels or elements of a sample.
std::string offset_types(const Problem& problem);

} // namespace tconv3d::cuda
