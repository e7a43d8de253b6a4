#include "cuda/outer/outer.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cuda/reduction/split_kernel.hpp"
#include "cuda/reduction/tile.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/sweep/sweep.hpp"
#include "cuda/tensorcore/wgmma_source.hpp"

namespace tconv3d::cuda {
namespace {

class OuterKernel final : public SplitKernel {
public:
    OuterKernel(const Problem& problem, const Device& device, const OuterTile& tile)
        : SplitKernel(problem, device, tile.splits, [problem, tile] { return outer_request(problem, tile); }),
          problem_(problem), tile_(tile), args_(outer_arguments(problem, tile)),
          items_(outer_items(problem, tile) * tile.splits) {}

    std::string describe() const override {
        return "wgmma, outer products: " + tile_.str() + ", about " + std::to_string(std::lround(tile_.microseconds)) +
               " us";
    }

private:
    void launch_products(const LoadedFunction& products, const Arguments& arguments, void* sums,
                         void* stream) const override {
        TensorMap src = tensorcore::encode_map(problem_, outer_src_map(problem_, tile_), arguments.src);
        TensorMap dst = tensorcore::encode_map(problem_, outer_dst_map(problem_, tile_), arguments.grad_dst);
        OuterArguments args = args_;
        args.sums = sums;
        std::array<void*, 3> kernel_arguments = {&src, &dst, &args};
        launch(*products.get(stream), {items_}, {OuterThreads::kConsumers + OuterThreads::kProducers},
               kernel_arguments.data(), stream);
    }

    Problem problem_;
    OuterTile tile_;
    OuterArguments args_;
    int64_t items_;
};

/// Why no tile divides the channels of a group; empty when one does.
std::string reject_channels(const Problem& problem) {
    const int64_t src = problem.src_channels_per_group(), dst = problem.dst_channels_per_group();
    const bool rows = src % kOuterRows == 0 || dst % kOuterRows == 0;
    if (rows && src % 16 == 0 && dst % 16 == 0) return "";
    return "takes groups with multiples of 16 channels, and of 64 on one side, got " + std::to_string(src) + " and " +
           std::to_string(dst);
}

std::string reject(const Question& question) {
    const Problem& problem = question.problem;
    if (problem.direction != Direction::bwd_weight)
        return std::string("takes bwd_weight, got ") + name(problem.direction);
    if (question.device.sm != 90)
        return "wgmma needs compute capability 9.0, got " + std::to_string(question.device.sm / 10) + "." +
               std::to_string(question.device.sm % 10);
    if (bytes_per_element(problem.dtype) != OuterPlane::kElementBytes)
        return std::string("takes bf16 and f16, got ") + name(problem.dtype);
    if (!problem.channels_last()) return "takes channels_last_3d (ndhwc), got ncdhw";
    if (problem.src_elements() == 0 || problem.dst_elements() == 0)
        return "takes tensors that are not empty, got " + problem.str();
    constexpr int64_t kMostStride = 8; // of TMA
    const Extents stride = reduction_stride(problem);
    if (std::max(stride[1], stride[2]) > kMostStride)
        return "takes strides up to 8 along H and W, got " + str(problem.stride);
    constexpr int64_t kMostTaps = 1024; // in a table
    if (problem.kernel[0] * problem.kernel[1] * problem.kernel[2] > kMostTaps)
        return "takes up to 1024 taps, got " + str(problem.kernel);
    std::string reason = reject_channels(problem);
    return reason.empty() ? reject_beyond_32_bits(problem) : reason;
}

/// One wgmma of 64 rows with all columns, both operands by descriptors and transposed.
std::string product_source(const Problem& problem, const OuterTile& tile) {
    const int64_t count = tile.columns / 2;
    const std::string type = tensorcore::operand_type(problem);
    const auto [places, operands] = tensorcore::sums_text(count);
    return "__device__ __forceinline__ void multiply(float (&sums)[" + std::to_string(count) +
           "], uint64_t rows, uint64_t columns) {\n    asm volatile(\"wgmma.mma_async.sync.aligned.m64n" +
           std::to_string(tile.columns) + "k16.f32." + type + "." + type + " {" + places + "}, %" +
           std::to_string(count) + ", %" + std::to_string(count + 1) + ", 1, 1, 1, 1, 1;\"\n        : " + operands +
           " : \"l\"(rows), \"l\"(columns));\n}\n";
}

/// The taps of all blocks and their planes, each block with as many as those that have most.
struct TapTables {
    std::vector<int64_t> planes;                              ///< of each block
    std::vector<int64_t> plane_d, plane_h, plane_w;           ///< the first voxel of each plane
    std::vector<int64_t> tap_numbers, tap_planes, tap_voxels; ///< of each tap; -1, and any voxel, for none

    TapTables(const std::vector<OuterTapBlock>& blocks, int64_t block_taps, const OuterPlane& dst) {
        const auto most = static_cast<size_t>(most_planes(blocks));
        for (const OuterTapBlock& block : blocks) {
            planes.push_back(static_cast<int64_t>(block.planes.size()));
            for (size_t i = 0; i < most; ++i) {
                const Extents first = i < block.planes.size() ? block.planes[i].first : Extents{};
                plane_d.push_back(first[0]);
                plane_h.push_back(first[1]);
                plane_w.push_back(first[2]);
            }
            for (size_t i = 0; i < static_cast<size_t>(block_taps); ++i) {
                const OuterTap tap = i < block.taps.size() ? block.taps[i] : OuterTap{-1, 0, 0, 0};
                tap_numbers.push_back(tap.number);
                tap_planes.push_back(tap.plane);
                tap_voxels.push_back(tap.h * dst.w + tap.w);
            }
        }
    }
};

} // namespace

KernelRequest outer_request(const Problem& problem, const OuterTile& tile) {
    const std::vector<OuterTapBlock> blocks = outer_tap_blocks(problem, tile.block_taps());
    const OuterPlane dst = outer_dst_plane(problem, tile);
    const TapTables tables(blocks, tile.block_taps(), dst);
    Prelude prelude;
    prelude.add("#include \"base/storage.cuh\"\n")
        .add(element_types(problem))
        .extents("kKernel", problem.kernel)
        .extents("kStride", reduction_stride(problem))
        .constant("kGroups", problem.groups)
        .constant("kSrcChannels", problem.src_channels_per_group())
        .constant("kDstChannels", problem.dst_channels_per_group())
        .flag("kRowsAreDst", tile.rows_are_dst)
        .constant("kTileColumns", tile.columns)
        .constant("kWarpgroupTaps", tile.taps)
        .constant("kBoxH", tile.height)
        .constant("kBoxW", tile.width)
        .constant("kMetH", dst.h)
        .constant("kMetW", dst.w)
        .constant("kTapBlocks", static_cast<int64_t>(blocks.size()))
        .constant("kMostPlanes", most_planes(blocks))
        .array("kBlockPlanes", tables.planes)
        .array("kPlaneFirstD", tables.plane_d)
        .array("kPlaneFirstH", tables.plane_h)
        .array("kPlaneFirstW", tables.plane_w)
        .array("kTapNumber", tables.tap_numbers)
        .array("kTapPlane", tables.tap_planes)
        .array("kTapVoxel", tables.tap_voxels)
        .constant("kStages", tile.stages)
        .flag("kStoresSplits", tile.splits > 1)
        .add(product_source(problem, tile));
    return {"outer.cuh", prelude.str(), "outer", outer_shared_bytes(problem, tile)};
}

Answer answer_outer(const Question& question) {
    std::string reason = reject(question);
    if (!reason.empty()) return {std::move(reason), {}};
    const std::vector<OuterTile> tiles = best_outer_tiles(question.problem, question.device, question.most_candidates);
    return answer_with_tiles<OuterKernel>(question, tiles, outer_items);
}

} // namespace tconv3d::cuda
