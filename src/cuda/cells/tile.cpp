// The choice of a tile for kernels/cells_correlation.cuh: candidates, limits, and a count of instructions that scores
// them. bwd_data takes over the constants of fwd; neither these nor what is derived for it below have been fitted
// there.
#include <algorithm>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/cells/window.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kMostOutputs = 32;         // of a cell: each is code of its own to store it
constexpr int64_t kMostOutputsOfStride = 64; // where it is one stride, which it must have
// A thread has 255 registers of 4 bytes: for sums, for the voxels of a slice, for the weights that are held.
constexpr int64_t kMostSumBytes = 64 * 4;
constexpr int64_t kMostHeldBytes = 32 * 4; // as kHoldsWeights of the kernel
constexpr int64_t kMostShared = 24 * 1024; // several blocks fit on a multiprocessor
constexpr int64_t kChain = 32;             // products that are added one after the other

/// What a thread does for one input channel.
struct Work {
    int64_t slices;     ///< shifts along D
    int64_t slice_uses; ///< pairs of an output and a tap along D
    int64_t voxels;     ///< of a slice
    int64_t loads;      ///< of a slice
    int64_t voxel_uses; ///< pairs of an output and a tap along H and W
};

/// Neighbouring threads have neighbouring cells along W: where memory has them side by side, a wide cell would spread
/// its loads and stores, unless each is one access.
bool takes_width(const Problem& problem, int64_t cell_w) {
    if (problem.channels_last() || cell_w == out_stride(problem)[2]) return true;
    const int64_t own = vector_voxels(problem, cell_w);
    return own > 1 && in_extents(problem)[2] % own == 0 && out_extents(problem)[2] % cell_w == 0 &&
           kMostAccess % (cell_w * bytes_per_element(problem.dtype)) == 0;
}

Work work_of(const Problem& problem, const IndexMap& map, const Extents& cell) {
    const std::vector<CellShift> d = cell_shifts(map.axes[0], cell[0]);
    const std::vector<CellShift> h = cell_shifts(map.axes[1], cell[1]);
    const std::vector<CellShift> w = cell_shifts(map.axes[2], cell[2]);
    const int64_t slices = static_cast<int64_t>(d.size()), rows = static_cast<int64_t>(h.size());
    return {slices, count_uses(d), rows * static_cast<int64_t>(w.size()),
            rows * row_loads(w, vector_voxels(problem, cell[2])), count_uses(h) * count_uses(w)};
}

/// Products that one output sums up for one input channel, at most.
int64_t products_of_channel(const Problem& problem) {
    int64_t products = 1;
    for (size_t i = 0; i < 3; ++i) products *= cuts(problem.kernel[i], out_stride(problem)[i]);
    return products;
}

/// How many input channels' weights are staged at once: what fits, and what makes a chain of sums that is short enough
/// not to round too often. 0 when not even one fits. What lies between the taps of lanes (kTapPitch of the kernel) is
/// not counted: at most half as much again, for which there is room.
int64_t chunk_of(const Problem& problem, int64_t tile) {
    const int64_t plane = cuts(problem.kernel[1] * problem.kernel[2] * tile, 4) * 4; // as kPlane of the kernel
    const int64_t bytes = problem.kernel[0] * plane * compute_bytes(problem);
    const int64_t short_chain = std::max<int64_t>(1, kChain / products_of_channel(problem));
    return std::min({in_channels(problem), kMostShared / bytes, short_chain});
}

/// Lanes side by side on neighbouring channels, or packs of them. Where the weights of so many channels do not fit into
/// shared memory there are fewer lanes, but so many that their channels of a voxel fill a sector.
int64_t fitting_lanes(const Problem& problem, int64_t pack) {
    constexpr int64_t kSector = 32;
    int64_t lanes = channel_lanes(problem, all_out_channels(problem), pack);
    while (chunk_of(problem, pack * lanes) == 0 && lanes * pack * bytes_per_element(problem.dtype) > kSector)
        lanes /= 2;
    return lanes;
}

/// Products in the unrolled code: cells of one output along D walk their slices in a loop.
int64_t unrolled_products(const CellTile& tile, const Work& work) {
    return (tile.cell[0] == 1 ? 1 : work.slice_uses) * work.voxel_uses * tile.channels;
}

/// What a load of a warp touches (spread): its cells lie apart, and where few channels are side by side its voxels do.
double load_spread(const Problem& problem, const CellTile& tile) {
    const int64_t own = tile.cell[2] / out_stride(problem)[2] * in_stride(problem)[2];
    const int64_t channels = problem.channels_last() ? all_in_channels(problem) : 1;
    return spread(kWarp / tile.lanes, own * channels * bytes_per_element(problem.dtype));
}

/// A load with its condition, in instructions.
double load_instructions(const Problem& problem, const CellTile& tile) {
    constexpr double kNeighbours = 3;
    return problem.channels_last() ? kNeighbours * load_spread(problem, tile) : kNeighbours;
}

/// Instructions of a thread for an input channel's weights, so many for each. Where lanes have channels of their own,
/// these were counted in the machine code, and all weights are kept for a few items where they are staged together.
double staged_instructions(const Problem& problem, const CellTile& tile, double per_weight) {
    constexpr double kThreads = 128, kItems = 2;
    const bool keeps = tile.lanes > 1 && tile.chunk == in_channels(problem);
    return static_cast<double>(problem.taps() * tile.channels * tile.lanes) / kThreads * per_weight /
           (keeps ? kItems : 1);
}

/// Instructions of a thread: loads with their conditions, weights, products, and what belongs to each output.
double instructions(const Problem& problem, const CellTile& tile, const Work& work) {
    const int64_t plane_taps = problem.kernel[1] * problem.kernel[2];
    const bool held = plane_taps * tile.channels * compute_bytes(problem) <= kMostHeldBytes;
    // Broadcast weights that lie side by side come four to an instruction.
    const int64_t per_load = tile.lanes > 1 ? 1 : std::min<int64_t>(held ? 4 : tile.channels, 4);
    const double weights =
        static_cast<double>(work.slice_uses * (held ? plane_taps : work.voxel_uses) * tile.channels) /
        static_cast<double>(per_load);
    const double staged = staged_instructions(problem, tile, tile.lanes > 1 ? 30 : 8);
    const double per_channel = load_instructions(problem, tile) * static_cast<double>(work.slices * work.loads) +
                               weights + staged +
                               static_cast<double>(work.slice_uses * work.voxel_uses * tile.channels);
    constexpr double kPerOutput = 8;
    const double per_thread = problem.channels_last() ? 300 : 100; // more where they were counted, as those of packs
    const int64_t outputs = tile.cell[0] * tile.cell[1] * tile.cell[2] * tile.channels;
    return per_thread + per_channel * static_cast<double>(in_channels(problem)) +
           kPerOutput * static_cast<double>(outputs);
}

/// Instructions of a thread with a pack, counted in the machine code: a load with its condition and a cleared register,
/// a conversion of each value of 16 bits, and weights that come as packs.
double pack_instructions(const Problem& problem, const CellTile& tile, const Work& work) {
    constexpr double kLoad = 3, kStaged = 18, kPerOutput = 6, kPerThread = 300;
    const bool converts = bytes_per_element(problem.dtype) == 2;
    const int64_t converted = converts ? work.slices * work.voxels * tile.pack : 0;
    const int64_t weights = work.slice_uses * problem.kernel[1] * problem.kernel[2];
    const int64_t products = work.slice_uses * work.voxel_uses * tile.pack;
    const double staged = staged_instructions(problem, tile, kStaged);
    const int64_t outputs = tile.cell[0] * tile.cell[1] * tile.cell[2] * tile.pack;
    return kPerThread + kLoad * static_cast<double>(work.slices * work.loads) + staged +
           static_cast<double>(converted + weights + products) + kPerOutput * static_cast<double>(outputs);
}

double threads_of(const Problem& problem, const CellTile& tile) {
    const int64_t space = problem.channels_last() ? all_out_channels(problem) : out_channels(problem);
    const int64_t tiles = all_out_channels(problem) / space * cuts(space, tile.channels * tile.lanes);
    double threads = static_cast<double>(problem.batch) * static_cast<double>(tiles * tile.lanes);
    const Extents out = out_extents(problem);
    for (size_t i = 0; i < 3; ++i) threads *= static_cast<double>(cuts(out[i], tile.cell[i]));
    return threads;
}

/// bwd_data: clocks of a warp in which the L1 cache brings its voxels, 128 bytes in each. That is derived, not fitted;
/// in fwd, whose neighbours are side by side, the loads' instructions take longer.
double access_clocks(const Problem& problem, const CellTile& tile, const Work& work) {
    if (is_fwd(problem)) return 0;
    return std::max(load_spread(problem, tile), pack_clocks(problem, tile.pack)) *
           static_cast<double>(work.slices * work.loads * in_channels(problem));
}

double estimate(const Problem& problem, const CellTile& tile, const Work& work, int multiprocessors) {
    // Four instructions a clock and multiprocessor, half of them lost; too few warps wait for their own results.
    const double warps = std::max(threads_of(problem, tile) / kWarp / (4.0 * multiprocessors), 2.0);
    constexpr double kClocksPerMicrosecond = 1700, kBytesPerMicrosecond = 4e6, kLaunch = 5;
    const double slow = problem.dtype == DType::f64 ? 1.5 : 1;
    const double own = tile.pack > 1 ? pack_instructions(problem, tile, work) : instructions(problem, tile, work);
    const double issue = 2 * slow * warps * own / kClocksPerMicrosecond;
    // A thread waits for the voxels of one input channel before it asks for the next: some 600 clocks, which eight
    // warps of a scheduler hide from one another.
    constexpr double kLatency = 600, kWarpsThatHide = 8;
    const double channels = static_cast<double>(in_channels(problem));
    const double waiting = std::max(warps / kWarpsThatHide, 1.0) * channels * kLatency / kClocksPerMicrosecond;
    // The four schedulers of a multiprocessor share its cache.
    const double access = 4 * warps * access_clocks(problem, tile, work) / kClocksPerMicrosecond;
    return kLaunch + std::max({issue, waiting, access, problem.bytes() / kBytesPerMicrosecond});
}

/// A thread's channels must read the same input, those of one group, or be a pack.
bool has_channels(const Problem& problem, int64_t lanes, int64_t pack, int64_t channels) {
    if (pack > 1 || channels == 1) return channels == pack;
    if (lanes > 1) return problem.groups == 1 && channels * lanes < 2 * out_channels(problem);
    return channels < 2 * out_channels(problem);
}

/// In bwd_data, whose windows are large, a window must leave registers for addresses and conditions: those of a slice
/// where a loop walks the slices, else of all of them, which the compiler loads before it multiplies. A cell of one
/// output always does.
bool window_fits(const Problem& problem, const CellTile& tile, const Work& work, int64_t sums) {
    const bool walks = tile.cell[0] == 1;
    if (is_fwd(problem) || (walks && tile.cell[1] * tile.cell[2] == 1)) return true;
    constexpr int64_t kMostWithAddresses = 112, kMostUnrolled = 96; // found by compiling: no more spills
    const int64_t words = compute_bytes(problem) / 4;
    return walks ? work.voxels * words + work.loads <= kMostWithAddresses
                 : (work.slices * work.voxels + sums) * words <= kMostUnrolled;
}

/// How many CTAs a multiprocessor has registers for where threads have packs. Found by compiling: with 128 registers
/// nothing spills where sums, a window and held weights take 112, with 168 where they take 144. 0 where that is not
/// known, as where a window has several slices at a time.
int64_t pack_ctas(const Problem& problem, const CellTile& tile, const Work& work) {
    const int64_t sums = tile.cell[0] * tile.cell[1] * tile.cell[2] * tile.pack;
    const int64_t held = problem.kernel[1] * problem.kernel[2] * tile.pack;
    const int64_t words = compute_bytes(problem) / 4;
    if (held * compute_bytes(problem) > kMostHeldBytes || (!is_fwd(problem) && tile.cell[0] > 1)) return 0;
    const int64_t values = (sums + held) * words + work.voxels * voxel_words(problem, tile.pack);
    return values <= 112 ? 4 : values <= 144 ? 3 : 0;
}

int64_t most_outputs(const Problem& problem, const Extents& cell) {
    return cell == out_stride(problem) ? kMostOutputsOfStride : kMostOutputs;
}

bool fits(const Problem& problem, const CellTile& tile, const Work& work) {
    const int64_t outputs = tile.cell[0] * tile.cell[1] * tile.cell[2];
    const int64_t sums = outputs * tile.channels * (tile.splits_chains ? 2 : 1);
    const bool has_registers = tile.pack > 1 ? tile.ctas > 0 : window_fits(problem, tile, work, sums);
    return has_registers && tile.chunk > 0 && outputs <= most_outputs(problem, tile.cell) &&
           work.voxels <= kMostSliceVoxels && unrolled_products(tile, work) <= kMostProducts &&
           sums * compute_bytes(problem) <= kMostSumBytes;
}

} // namespace

CellTile choose_cell_tile(const Problem& problem, int multiprocessors) {
    CellTile best{};
    // The window of such problems is over the limits anyway.
    const auto too_large = [](int64_t extent) { return extent > kMostProducts; };
    if (std::any_of(problem.kernel.begin(), problem.kernel.end(), too_large)) return best;
    if (std::any_of(problem.stride.begin(), problem.stride.end(), too_large)) return best;
    if (!is_fwd(problem) && problem.kernel[1] * problem.kernel[2] > kMostSliceVoxels) return best;
    const Extents strides = out_stride(problem);
    const IndexMap map(problem);
    for (const int64_t d : {1, 2})
        for (const int64_t h : {1, 2, 4})
            for (const int64_t w : {1, 2, 4}) {
                const Extents cell = {d * strides[0], h * strides[1], w * strides[2]};
                if (cell[0] * cell[1] * cell[2] > most_outputs(problem, cell) || !takes_width(problem, cell[2]))
                    continue;
                const Work work = work_of(problem, map, cell);
                for (const int64_t pack : channel_packs(problem)) {
                    const int64_t lanes = fitting_lanes(problem, pack);
                    for (const int64_t channels : {1, 2, 4, 8, 16}) {
                        CellTile tile{cell, channels, lanes, pack, chunk_of(problem, channels * lanes), false, 1, 0};
                        if (pack > 1) tile.ctas = pack_ctas(problem, tile, work);
                        tile.splits_chains = tile.chunk < in_channels(problem);
                        if (!has_channels(problem, lanes, pack, channels) || !fits(problem, tile, work)) continue;
                        tile.microseconds = estimate(problem, tile, work, multiprocessors);
                        if (best.microseconds == 0 || tile.microseconds < best.microseconds) best = tile;
                    }
                }
            }
    return best;
}

} // namespace tconv3d::cuda
