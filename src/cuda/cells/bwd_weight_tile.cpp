// The choice of a tile for kernels/cells_bwd_weight.cuh: candidates, limits, and an estimate that scores them. None of
// its constants is fitted: those of tile.cpp are taken over, and the others are derived from what the hardware does in
// a clock, as it is said beside them.
#include <algorithm>
#include <vector>

#include "core/cuts.hpp"
#include "cuda/cells/bwd_weight.hpp"
#include "cuda/cells/window.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kMostDepth = 8; // taps along D: a warp each, with 255 registers a thread
// Of 255 registers, for sums, a window and the voxels of src that it meets; and with the addresses of its loads. Found
// by compiling: with more of them some kernels spill.
constexpr int64_t kMostValues = 160, kMostWithAddresses = 168;
constexpr int64_t kMostWorkspace = 64 << 20;
constexpr int64_t kChain = 64;              // products that are added one after the other
constexpr int64_t kBlocks[] = {1, 2, 4, 8}; // channels of a thread

int64_t plane_taps(const Problem& problem) {
    return problem.kernel[1] * problem.kernel[2];
}

/// What a thread does for one cell and channel of dst.
struct Window {
    int64_t voxels;
    int64_t loads;
    int64_t uses; ///< pairs of a voxel of the cell and a tap
};

Window window_of(const Problem& problem, const IndexMap& map, const Extents& cell) {
    const std::vector<CellShift> h = cell_shifts(map.axes[1], cell[1]);
    const std::vector<CellShift> w = cell_shifts(map.axes[2], cell[2]);
    const int64_t rows = static_cast<int64_t>(h.size());
    return {rows * static_cast<int64_t>(w.size()), rows * row_loads(w, vector_voxels(problem, cell[2])),
            count_uses(h) * count_uses(w)};
}

/// As in tile.cpp: a wide cell's loads must be one access where memory has neighbouring cells side by side.
bool takes_width(const Problem& problem, int64_t cell_w) {
    if (problem.channels_last() || cell_w == 1) return true;
    return vector_voxels(problem, cell_w) > 1 && problem.src[2] % cell_w == 0;
}

/// A CTA has a warp or more for each tap along D, about four in all.
int64_t threads_of(const Problem& problem) {
    int64_t warps = 1;
    while (2 * warps * problem.kernel[0] <= 4) warps *= 2;
    return warps * kWarp * problem.kernel[0];
}

int64_t sums_of(const Problem& problem, const CellWeightTile& tile) {
    return (tile.src_channels * tile.dst_channels * plane_taps(problem) + tile.dst_channels) * tile.pack;
}

int64_t split_bytes(const Problem& problem) {
    return (problem.weight_elements() + problem.dst_channels) * compute_bytes(problem);
}

int64_t volume(const CellWeightTile& tile) {
    return tile.cell[1] * tile.cell[2];
}

/// As in tile.cpp. A thread with packs keeps the sums of earlier chains in shared memory, where there is room for them.
int64_t pack_ctas(const Problem& problem, const CellWeightTile& tile, const Window& window) {
    constexpr int64_t kMostPackValues = 124, kMostShared = 31 << 10; // 48 KiB, less what adds up the threads' sums
    if (sums_of(problem, tile) * tile.threads * compute_bytes(problem) > kMostShared) return 0;
    const int64_t values = (sums_of(problem, tile) + tile.pack * volume(tile)) * compute_bytes(problem) / 4 +
                           window.voxels * voxel_words(problem, tile.pack);
    return values <= kMostPackValues ? 3 : 0;
}

bool fits(const Problem& problem, const CellWeightTile& tile, const Window& window) {
    if (tile.pack > 1)
        return tile.ctas > 0 && window.voxels <= kMostSliceVoxels && window.uses * tile.pack <= kMostProducts;
    // The window of the next channel of dst is loaded while one is multiplied.
    const int64_t windows = std::min<int64_t>(tile.dst_channels, 2);
    const int64_t values = (sums_of(problem, tile) * (tile.chain > 0 ? 2 : 1) + windows * window.voxels +
                            tile.src_channels * volume(tile)) *
                           compute_bytes(problem) / 4;
    const bool least = tile.src_channels * tile.dst_channels * volume(tile) == 1;
    return window.voxels <= kMostSliceVoxels && values <= kMostValues &&
           (least || values + windows * window.loads <= kMostWithAddresses) &&
           window.uses * tile.src_channels * tile.dst_channels <= kMostProducts;
}

/// Enough CTAs for eight warps of each scheduler, where there are voxels for them. With packs, as many as run at a
/// time: each leaves sums of many channels.
int64_t splits_of(const Problem& problem, const CellWeightTile& tile, int multiprocessors) {
    const int64_t wanted = multiprocessors * (tile.pack > 1 ? tile.ctas : std::max<int64_t>(1024 / tile.threads, 1));
    const int64_t tiles = cell_splits(problem, tile).tiles;
    const int64_t most = std::min(std::max<int64_t>(tiles, 1), kMostWorkspace / split_bytes(problem));
    const int64_t splits = std::clamp<int64_t>(wanted / channel_blocks(problem, tile), 1, most);
    return std::max<int64_t>(cuts(tiles, cuts(std::max<int64_t>(tiles, 1), splits)), 1);
}

/// What one cell takes of a thread, in all its channels.
struct CellCost {
    double instructions;
    double access; ///< clocks in which the L1 cache brings a warp's voxels, 128 bytes in each
};

CellCost cost_of_cell(const Problem& problem, const CellWeightTile& tile, const Window& window) {
    constexpr double kLoad = 3, kPerCell = 40; // a load with its condition; addresses, bounds and the loop
    const int64_t own = tile.cell[2] * problem.stride[2];
    const int64_t pairs = tile.src_channels * tile.dst_channels * tile.pack;
    const double dst_loads = static_cast<double>(window.loads * tile.dst_channels);
    const double src_loads = static_cast<double>(tile.cell[1] * (problem.channels_last() ? tile.cell[2] : 1)) *
                             static_cast<double>(tile.src_channels);
    const auto spread_of = [&](int64_t voxels, int64_t channels) {
        return std::max(spread(kWarp / tile.lanes,
                               voxels * (problem.channels_last() ? channels : 1) * bytes_per_element(problem.dtype)),
                        pack_clocks(problem, tile.pack));
    };
    const double products = static_cast<double>(window.uses * pairs);
    const int64_t read = window.voxels * tile.dst_channels + volume(tile) * tile.src_channels;
    const bool converts = problem.channels_last() && bytes_per_element(problem.dtype) == 2;
    const double converted = converts ? static_cast<double>(read * tile.pack) : 0;
    // The voxels of dst that belong to a cell are added up for the bias, mostly from the window.
    const double bias = static_cast<double>(own * tile.cell[1] * problem.stride[1] * problem.stride[0]) /
                        static_cast<double>(problem.kernel[0]) * static_cast<double>(pairs) /
                        static_cast<double>(problem.src_channels_per_group());
    const double chains = tile.chain > 0 ? 2.0 * static_cast<double>(sums_of(problem, tile)) /
                                               static_cast<double>(std::min(tile.chain, problem.src[0]))
                                         : 0;
    return {kLoad * (dst_loads + src_loads) + products + converted + bias + chains + kPerCell,
            spread_of(own, problem.dst_channels) * dst_loads +
                spread_of(tile.cell[2], problem.src_channels) * src_loads};
}

double estimate(const Problem& problem, const CellWeightTile& tile, const Window& window, int multiprocessors) {
    constexpr double kClocksPerMicrosecond = 1700, kBytesPerMicrosecond = 4e6;
    constexpr double kLaunches = 5 + 3; // the second kernel waits for the first
    const CellSplits cut = cell_splits(problem, tile);
    const double ctas_each = static_cast<double>(cuts(cut.items, multiprocessors));
    const double warps = std::max(ctas_each * static_cast<double>(tile.threads) / (4 * kWarp), 2.0); // of a scheduler
    const CellCost cell = cost_of_cell(problem, tile, window);
    const double cells = static_cast<double>(cut.split_tiles);
    // The indexes of a column of slices, in 64 bits, and the sums of a CTA.
    const double columns = cells / static_cast<double>(problem.src[0]) + 1;
    const double rest = 200 * columns + 10 * static_cast<double>(sums_of(problem, tile));
    const double slow = problem.dtype == DType::f64 ? 1.5 : 1;
    const double issue = 2 * slow * warps * (cells * cell.instructions + rest) / kClocksPerMicrosecond;
    const double access = 4 * warps * cells * cell.access / kClocksPerMicrosecond;
    constexpr double kLatency = 600, kWarpsThatHide = 8;
    const double waiting = std::max(warps / kWarpsThatHide, 1.0) * cells * kLatency / kClocksPerMicrosecond;
    // Each block of channels reads its tensors for itself, from the L2 cache: 32 bytes a clock and multiprocessor.
    const int64_t dst_together = tile.lanes * tile.dst_channels * tile.pack;
    const double src_reads = static_cast<double>(problem.src_elements()) *
                             static_cast<double>(cuts(problem.dst_channels_per_group(), dst_together));
    const double dst_reads = static_cast<double>(problem.dst_elements()) *
                             static_cast<double>(cuts(problem.src_channels_per_group(), tile.src_channels));
    const double cached = (src_reads + dst_reads) * static_cast<double>(bytes_per_element(problem.dtype)) /
                          (32.0 * multiprocessors * kClocksPerMicrosecond);
    const double partials = 2.0 * static_cast<double>(workspace_bytes(problem, tile)) / kBytesPerMicrosecond;
    return kLaunches + partials + std::max({issue, access, waiting, cached, problem.bytes() / kBytesPerMicrosecond});
}

/// Tiles of every cell, without the channels of a thread.
std::vector<CellWeightTile> cells_for(const Problem& problem) {
    std::vector<CellWeightTile> list;
    for (const int64_t h : {1, 2, 4})
        for (const int64_t w : {1, 2, 4}) {
            if (!takes_width(problem, w)) continue;
            const int64_t chain = problem.dtype == DType::f64 ? 0 : std::max<int64_t>(kChain / (h * w), 1);
            list.push_back({{1, h, w}, 1, 1, 1, 1, threads_of(problem), chain, 1, 1, 0});
        }
    return list;
}

/// The ways to give channels to threads. In channels-last as many neighbouring channels of dst as a warp has threads,
/// or as there are, take the lanes, or as many packs.
std::vector<CellWeightTile> with_channels(const Problem& problem, const CellWeightTile& tile) {
    std::vector<CellWeightTile> list;
    for (const int64_t pack : channel_packs(problem))
        for (const int64_t src : kBlocks)
            for (const int64_t dst : kBlocks) {
                if (src >= 2 * problem.src_channels_per_group()) continue;
                if (dst >= 2 * problem.dst_channels_per_group()) continue;
                CellWeightTile with = tile;
                with.src_channels = src;
                with.dst_channels = dst;
                with.pack = pack;
                with.lanes = channel_lanes(problem, problem.dst_channels, pack);
                if (with.lanes > 1 && dst > 1) continue;
                list.push_back(with);
            }
    return list;
}

} // namespace

int64_t channel_blocks(const Problem& problem, const CellWeightTile& tile) {
    const int64_t src = cuts(problem.src_channels_per_group(), tile.src_channels);
    const int64_t dst = cuts(problem.dst_channels_per_group(), tile.dst_channels);
    const int64_t side_by_side = tile.lanes * tile.pack;
    return src * (side_by_side == 1 ? problem.groups * dst : cuts(problem.dst_channels, side_by_side));
}

CellSplits cell_splits(const Problem& problem, const CellWeightTile& tile) {
    CellSplits cut{};
    cut.cells_h = cuts(problem.src[1], tile.cell[1]);
    cut.cells_w = cuts(problem.src[2], tile.cell[2]);
    cut.blocks = cuts(cut.cells_h * cut.cells_w, tile.threads / problem.kernel[0] / tile.lanes);
    cut.tiles = cut.blocks * problem.src[0] * problem.batch;
    cut.split_tiles = cuts(std::max<int64_t>(cut.tiles, 1), tile.splits);
    cut.items = tile.splits * channel_blocks(problem, tile);
    return cut;
}

int64_t workspace_bytes(const Problem& problem, const CellWeightTile& tile) {
    return tile.splits * split_bytes(problem);
}

std::string reject_cell_weights(const Problem& problem) {
    if (problem.kernel[0] > kMostDepth || problem.kernel[1] > kMostSliceVoxels / problem.kernel[2])
        return "takes kernels of at most " + std::to_string(kMostDepth) + " taps along d and " +
               std::to_string(kMostSliceVoxels) + " along h and w, got " + tconv3d::str(problem.kernel);
    if (*std::max_element(problem.stride.begin(), problem.stride.end()) > kMostProducts)
        return "takes strides up to " + std::to_string(kMostProducts) + ", got " + tconv3d::str(problem.stride);
    if (problem.weight_elements() > kMostWorkspace / compute_bytes(problem) - problem.dst_channels)
        return "takes weights whose partial sums fit in 64 MiB, got " + std::to_string(problem.weight_elements()) +
               " elements";
    return "";
}

CellWeightTile choose_cell_weight_tile(const Problem& problem, int multiprocessors) {
    CellWeightTile best{};
    if (!reject_cell_weights(problem).empty()) return best;
    const IndexMap map(problem);
    for (const CellWeightTile& cell : cells_for(problem)) {
        const Window window = window_of(problem, map, cell.cell);
        for (CellWeightTile tile : with_channels(problem, cell)) {
            if (tile.pack > 1) tile.ctas = pack_ctas(problem, tile, window);
            if (!fits(problem, tile, window)) continue;
            tile.splits = splits_of(problem, tile, multiprocessors);
            tile.microseconds = estimate(problem, tile, window, multiprocessors);
            if (best.microseconds == 0 || tile.microseconds < best.microseconds) best = tile;
        }
    }
    return best;
}

} // namespace tconv3d::cuda
