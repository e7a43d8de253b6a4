#include "cuda/sweep/sweep.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/reduction/split_kernel.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/tensorcore/wgmma_source.hpp"

namespace tconv3d::cuda {
namespace {

class SweepKernel final : public SplitKernel {
public:
    SweepKernel(const Problem& problem, const Device& device, const SweepTile& tile)
        : SplitKernel(problem, device, tile.splits, [problem, tile] { return sweep_request(problem, tile); }),
          tile_(tile), args_(sweep_arguments(problem, tile)), items_(sweep_items(problem, tile) * tile.splits) {}

    std::string describe() const override {
        return "wgmma, swept along D: " + tile_.str() + ", about " + std::to_string(std::lround(tile_.microseconds)) +
               " us";
    }

private:
    void launch_products(const LoadedFunction& products, const Arguments& arguments, void* sums,
                         void* stream) const override {
        SweepArguments args = args_;
        args.fixed = tile_.moves_src ? arguments.grad_dst : arguments.src;
        args.moved = tile_.moves_src ? arguments.src : arguments.grad_dst;
        args.sums = sums;
        start(products, items_, SweepThreads::kConsumers + SweepThreads::kProducers, args, stream);
    }

    SweepTile tile_;
    SweepArguments args_;
    int64_t items_;
};

std::string reject(const Question& question) {
    const Problem& problem = question.problem;
    if (problem.direction != Direction::bwd_weight)
        return std::string("takes bwd_weight, got ") + name(problem.direction);
    if (std::string reason = reject_wgmma(question.device.sm); !reason.empty()) return reason;
    if (problem.dtype == DType::f64) return "tensor cores take f32, bf16 and f16, got f64";
    if (reduction_parts(problem) == 2) return "takes fp32 as tf32 only, got fp32 in full";
    return reject_beyond_32_bits(problem);
}

/// The product of 64 rows with all columns of a tile, for a k step.
std::string product_source(const Problem& problem, const SweepTile& tile) {
    const int64_t count = tile.fixed_channels / 2;
    const std::string type = tensorcore::operand_type(problem);
    const bool transposable = type != "tf32"; // the instruction then says whether columns lie side by side
    const SweepPlane plane = sweep_plane(problem, tile);
    const auto [places, operands] = tensorcore::sums_text(count);
    const auto operand = [count](int64_t i) { return "%" + std::to_string(count + i); };
    return "__device__ __forceinline__ void multiply_tile(float (&sums)[" + std::to_string(count) +
           "], const uint32_t (&rows)[4], uint64_t columns) {\n    asm volatile(\"wgmma.mma_async.sync.aligned.m64n" +
           std::to_string(tile.fixed_channels) + (problem.dtype == DType::f32 ? "k8" : "k16") + ".f32." + type + "." +
           type + " {" + places + "}, {" + operand(0) + ", " + operand(1) + ", " + operand(2) + ", " + operand(3) +
           "}, " + operand(4) + ", 1, 1, 1" + (transposable ? (plane.fixed_chunks ? ", 1" : ", 0") : "") +
           ";\"\n        : " + operands +
           " : \"r\"(rows[0]), \"r\"(rows[1]), \"r\"(rows[2]), \"r\"(rows[3]), \"l\"(columns));\n}\n";
}

} // namespace

std::string reject_beyond_32_bits(const Problem& problem) {
    constexpr int64_t kMostElements = int64_t{1} << 38, kLimit = int64_t{1} << 26, kMostVoxels = int64_t{1} << 30;
    const Extents dst = problem.dst();
    if (std::max({problem.src_elements(), problem.dst_elements(), problem.weight_elements()}) >= kMostElements ||
        problem.batch >= kLimit)
        return "takes tensors of fewer than 2^38 elements and 2^26 images, got " + problem.str();
    for (const Extents& extents : {problem.src, dst, problem.kernel, problem.padding, problem.stride, problem.dilation})
        if (*std::max_element(extents.begin(), extents.end()) >= kLimit)
            return "takes extents, padding, stride and dilation below 2^26, got " + problem.str();
    if (std::max(problem.src_voxels(), problem.dst_voxels()) >= kMostVoxels)
        return "takes volumes below 2^30 voxels, got " + problem.str();
    if (std::max(problem.src_channels, problem.dst_channels) >= kLimit)
        return "takes fewer than 2^26 channels, got " + std::to_string(problem.src_channels) + " and " +
               std::to_string(problem.dst_channels);
    constexpr int64_t kRowBytes = int64_t{1} << 32;
    const int64_t row = std::max(problem.src[2] * problem.src_channels, dst[2] * problem.dst_channels);
    if (problem.channels_last() && row * bytes_per_element(problem.dtype) >= kRowBytes)
        return "takes rows of fewer than 2^32 bytes in ndhwc, got " + problem.str();
    return "";
}

KernelRequest sweep_request(const Problem& problem, const SweepTile& tile) {
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    const SweepPlane plane = sweep_plane(problem, tile);
    Prelude prelude;
    prelude.add("#include \"base/storage.cuh\"\n")
        .add(element_types(problem))
        .flag("kChannelsLast", problem.channels_last())
        .extents("kKernel", problem.kernel)
        .constant("kGroups", problem.groups)
        .constant("kSrcChannels", problem.src_channels_per_group())
        .constant("kDstChannels", problem.dst_channels_per_group())
        .flag("kMovesSrc", tile.moves_src)
        .extents("kMovedStride", roles.stride)
        .extents("kMovedPadding", roles.padding)
        .extents("kDilation", roles.dilation)
        .flag("kFixedAligned", has_aligned_cells(problem, tile))
        .constant("kMovedBegin", moved_piece_begin(problem, tile))
        .flag("kMovedChunks", plane.moved_chunks)
        .flag("kFixedChunks", plane.fixed_chunks)
        .flag("kCopiesWords", tile.copies && problem.dtype == DType::f32 && !problem.channels_last())
        .constant("kTileFixedChannels", tile.fixed_channels)
        .constant("kTileMovedChannels", tile.moved_channels)
        .extents("kBlockTaps", tile.taps)
        .constant("kTileH", tile.height)
        .constant("kRowCells", tile.row_cells)
        .constant("kMTiles", tile.warpgroup_tiles())
        .constant("kConsumerRegisters", sweep_consumer_registers(tile))
        .constant("kProducerRegisters", SweepThreads::kRegisters - sweep_consumer_registers(tile))
        .constant("kIterationLines", sweep_iteration(tile).lines)
        .constant("kIterationGroups", sweep_iteration(tile).groups)
        .constant("kStages", tile.stages)
        .flag("kStoresSplits", tile.splits > 1)
        .add(product_source(problem, tile));
    return {"sweep.cuh", prelude.str(), "sweep", sweep_shared_bytes(problem, tile)};
}

Answer answer_sweep(const Question& question) {
    std::string reason = reject(question);
    if (!reason.empty()) return {std::move(reason), {}};
    std::vector<SweepTile> tiles;
    if (question.any_size && question.most_candidates == 1)
        tiles = any_size_sweep_tiles(question.problem, question.device);
    if (tiles.empty()) tiles = best_sweep_tiles(question.problem, question.device, question.most_candidates);
    return answer_with_tiles<SweepKernel>(question, tiles, sweep_items);
}

} // namespace tconv3d::cuda
