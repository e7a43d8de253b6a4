#include "cuda/reduction/cost.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "cuda/reduction/candidates.hpp"

namespace tconv3d::cuda {
namespace {

constexpr ReductionModel kModel;
constexpr SplitModel kSplits;

double as_double(int64_t value) {
    return static_cast<double>(value);
}

int64_t products_of_fragments(const Problem& problem) {
    return reduction_parts(problem) == 2 ? 3 : 1;
}

double tensor_clocks(const Problem& problem, const ReductionTile& tile, const Device& device) {
    const bool in_one_clock = device.sm / 10 == 9 || device.sm / 10 == 10; // H100, B200, B300
    const int64_t products = box_steps(problem, tile) * (tile.src_channels / 16) * tile.warp_columns() *
                             tile.column_warps() * products_of_fragments(problem);
    return as_double(products) * kModel.product_clocks * (in_one_clock ? 1 : 2);
}

constexpr double kLanes = 32;

/// What a CTA does to stage one of the tensors.
struct Staging {
    double copied_bytes, vectors;
    double laid_out; ///< elements; 0 where copies bring positions
    double vector_instructions;

    Staging(const StagedTensor& tensor, bool copies_positions) {
        const int64_t run_bytes = int64_t{tensor.run_elements()} * tensor.element_bytes;
        copied_bytes = as_double(tensor.runs() * (run_bytes + (tensor.aligned ? 0 : 16 - tensor.element_bytes)));
        vectors = copied_bytes / 16;
        laid_out = copies_positions ? 0 : as_double(int64_t{tensor.box.voxels()} * tensor.channels);
        vector_instructions =
            tensor.channels_last ? kModel.channel_vector_instructions : kModel.row_vector_instructions;
    }

    double instructions() const {
        return (vectors * vector_instructions + laid_out * kModel.layout_instructions) / kLanes;
    }
    /// A load takes a clock for 32 elements, whatever their size.
    double shared_clocks(const StagedTensor& tensor) const {
        const double stored = laid_out > 0 ? as_double(tensor.bytes()) : 0;
        return laid_out / kLanes + (copied_bytes + stored) / kModel.shared_bytes_per_clock;
    }
};

/// A fragment of 16 rows is 512 bytes, of 8 columns 256; in 16 bits columns come in pairs.
double fragment_clocks(const Problem& problem, const ReductionTile& tile) {
    const int64_t columns = round_up(tile.warp_columns(), problem.dtype == DType::f32 ? 1 : 2);
    const int64_t bytes = box_steps(problem, tile) * reduction_parts(problem) * (ReductionTile::kThreads / 32) *
                          (512 * tile.warp_rows() + 256 * columns);
    return as_double(bytes) / kModel.shared_bytes_per_clock;
}

/// Instructions of all warps to multiply a tile: products, and loads by word or, in 16 bits, by matrices.
double multiply_instructions(const Problem& problem, const ReductionTile& tile) {
    const int64_t rows = tile.warp_rows(), columns = tile.warp_columns();
    const int64_t loads =
        problem.dtype == DType::f32 ? reduction_parts(problem) * (4 * rows + 2 * columns) : rows + cuts(columns, 2);
    // Where fp32 is split, the four sums of two k steps are added by themselves.
    const int64_t added = reduction_parts(problem) == 2 ? 2 * rows * columns : 0;
    const double step =
        as_double(products_of_fragments(problem) * rows * columns + loads + added) + kModel.step_instructions;
    return as_double(box_steps(problem, tile) * (ReductionTile::kThreads / 32)) * step;
}

/// Clocks of a multiprocessor for all its CTAs, of all splits together.
double kernel_clocks(const Problem& problem, const ReductionTile& tile, const Device& device) {
    const int64_t items = cuts(split_items(problem, tile) * tile.splits, device.multiprocessors);
    const int64_t tiles = cuts(all_tiles(problem, tile), tile.splits);
    // Each result of grad_weight is in a sector of its own; sums of splits fill theirs.
    const double stored = as_double(tile.block_taps() * tile.src_channels * tile.dst_channels) *
                          (tile.splits > 1 ? 4 : 32) / kModel.copied_bytes_per_clock;
    const double clocks = tile_clocks(problem, tile, device, std::min(items, tile.ctas));
    return as_double(items) * (as_double(tiles) * clocks + stored + kModel.item_clocks);
}

double estimate(const Problem& problem, const ReductionTile& tile, const Device& device) {
    const double dst_bytes = as_double(problem.dst_elements() * bytes_per_element(problem.dtype));
    const double bias = kSplits.next_launch + kSplits.transfer(device, dst_bytes);
    return kSplits.products(problem, device, kernel_clocks(problem, tile, device)) + bias +
           kSplits.second_pass(problem, device, tile.splits);
}

/// How many times longer a tile takes than the longest of its parts.
double overhead_of(const Problem& problem, bool copies) {
    if (reduction_parts(problem) == 2) return kModel.split_overhead;
    if (problem.dtype == DType::f32) return kModel.tf32_overhead;
    return copies ? kModel.copied_overhead : kModel.laid_out_overhead;
}

} // namespace

double tile_clocks(const Problem& problem, const ReductionTile& tile, const Device& device, int64_t ctas) {
    const StagedTensor src = staged_src(problem, tile), dst = staged_dst(problem, tile);
    const bool direct = copies_positions(src, dst);
    const Staging src_staging(src, direct), dst_staging(dst, direct);
    const double instructions =
        multiply_instructions(problem, tile) + src_staging.instructions() + dst_staging.instructions();
    const double shared =
        fragment_clocks(problem, tile) + src_staging.shared_clocks(src) + dst_staging.shared_clocks(dst);
    const double copies = (src_staging.copied_bytes + dst_staging.copied_bytes) / kModel.copied_bytes_per_clock;
    const double overhead = overhead_of(problem, direct);
    return kModel.barrier + overhead * std::max({tensor_clocks(problem, tile, device), shared, copies,
                                                 instructions / kModel.instructions_per_clock,
                                                 (copies + kModel.copy_latency) / as_double(ctas)});
}

void choose_splits(const Problem& problem, const Device& device, ReductionTile& tile) {
    const int64_t tiles = all_tiles(problem, tile);
    const int64_t steps = reduction_parts(problem) == 2 ? 0 : tiles * box_steps(problem, tile);
    set_best_splits(tile, split_counts(problem, device, {split_items(problem, tile), tiles, steps}),
                    [&](const ReductionTile& split) { return estimate(problem, split, device); });
}

} // namespace tconv3d::cuda
