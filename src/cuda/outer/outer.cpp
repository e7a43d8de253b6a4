#include "cuda/outer/outer.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cuda/reduction/split_kernel.hpp"
#include "cuda/reduction/tile.hpp"
#include "cuda/runtime/compile.hpp"
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

/// Why TMA does not bring rows in NCDHW, or warps not transpose them; empty when they do.
std::string reject_rows(const Problem& problem) {
    constexpr int64_t kElements = 8; // of 16 bytes
    const int64_t src = problem.src[2], dst = problem.dst()[2], stride = reduction_stride(problem)[2];
    if (src % kElements != 0 || dst % kElements != 0)
        return "takes rows that are multiples of 16 bytes in ncdhw, got rows of " + std::to_string(src) + " and " +
               std::to_string(dst) + " voxels";
    if (kElements % stride != 0)
        return "takes strides of 1, 2, 4 and 8 along W in ncdhw, got " + std::to_string(stride);
    return "";
}

std::string reject(const Question& question) {
    const Problem& problem = question.problem;
    if (problem.direction != Direction::bwd_weight)
        return std::string("takes bwd_weight, got ") + name(problem.direction);
    if (std::string reason = reject_wgmma(question.device.sm); !reason.empty()) return reason;
    if (bytes_per_element(problem.dtype) != OuterPlane::kElementBytes)
        return std::string("takes bf16 and f16, got ") + name(problem.dtype);
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
    if (reason.empty() && !problem.channels_last()) reason = reject_rows(problem);
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

/// The first voxels of planes or of raw boxes, as tables.
struct FirstVoxels {
    std::vector<int64_t> d, h, w;

    void add(const Extents& first) {
        d.push_back(first[0]);
        h.push_back(first[1]);
        w.push_back(first[2]);
    }
};

/// The taps of all blocks, each block with as many as those that have most: -1, and any voxel, stand for none.
void add_taps(Prelude& prelude, const std::vector<OuterTapBlock>& blocks, int64_t block_taps, const OuterPlane& dst) {
    std::vector<int64_t> numbers, planes, voxels;
    for (const OuterTapBlock& block : blocks)
        for (size_t i = 0; i < static_cast<size_t>(block_taps); ++i) {
            const OuterTap tap = i < block.taps.size() ? block.taps[i] : OuterTap{-1, 0, 0, 0};
            numbers.push_back(tap.number);
            planes.push_back(tap.plane);
            voxels.push_back(tap.h * dst.w + tap.w);
        }
    prelude.array("kTapNumber", numbers).array("kTapPlane", planes).array("kTapVoxel", voxels);
}

/// Their planes, likewise.
void add_planes(Prelude& prelude, const std::vector<OuterTapBlock>& blocks) {
    const auto most = static_cast<size_t>(most_planes(blocks));
    std::vector<int64_t> counts;
    FirstVoxels first;
    for (const OuterTapBlock& block : blocks) {
        counts.push_back(static_cast<int64_t>(block.planes.size()));
        for (size_t i = 0; i < most; ++i) first.add(i < block.planes.size() ? block.planes[i].first : Extents{});
    }
    prelude.constant("kMostPlanes", most_planes(blocks))
        .array("kBlockPlanes", counts)
        .array("kPlaneFirstD", first.d)
        .array("kPlaneFirstH", first.h)
        .array("kPlaneFirstW", first.w);
}

/// Their raw boxes, likewise, and the plane of each phase along W of a raw box.
void add_raw_boxes(Prelude& prelude, const Problem& problem, const std::vector<OuterTapBlock>& blocks,
                   const OuterRawRows& rows) {
    const auto most = static_cast<size_t>(most_raw_boxes(blocks)), phases = rows.phase_first.size();
    std::vector<int64_t> counts, planes;
    FirstVoxels first;
    for (const OuterTapBlock& block : blocks) {
        const std::vector<OuterTapBlock::RawBox> boxes = block.raw_boxes();
        counts.push_back(static_cast<int64_t>(boxes.size()));
        for (size_t i = 0; i < most; ++i) {
            std::vector<int64_t> plane_of_phase(phases, -1);
            const OuterTapBlock::RawBox box = i < boxes.size() ? boxes[i] : OuterTapBlock::RawBox{0, 0};
            for (size_t plane = box.begin; plane < box.end; ++plane)
                plane_of_phase[outer_phase(problem, block.planes[plane])] = static_cast<int64_t>(plane);
            first.add(block.planes[box.begin].first);
            planes.insert(planes.end(), plane_of_phase.begin(), plane_of_phase.end());
        }
    }
    prelude.constant("kMostRaws", static_cast<int64_t>(most))
        .array("kBlockRaws", counts)
        .array("kRawFirstD", first.d)
        .array("kRawFirstH", first.h)
        .constant("kRawFirstW", rows.first)
        .array("kRawPlane", planes)
        .array("kPhaseFirstW", rows.phase_first);
}

} // namespace

KernelRequest outer_request(const Problem& problem, const OuterTile& tile) {
    const std::vector<OuterTapBlock> blocks = outer_tap_blocks(problem, tile.block_taps());
    const OuterPlane dst = outer_dst_plane(problem, tile);
    Prelude prelude;
    prelude.add("#include \"base/storage.cuh\"\n")
        .add(element_types(problem))
        .flag("kChannelsLast", problem.channels_last())
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
        .constant("kStages", tile.stages)
        .constant("kRawStages", tile.raw_stages)
        .constant("kRawBytes", outer_raw_box_bytes(problem, tile))
        .constant("kSrcRawW", outer_src_raw(problem, tile).w)
        .constant("kDstRawW", outer_dst_raw(problem, tile).w)
        .flag("kStoresSplits", tile.splits > 1);
    add_taps(prelude, blocks, tile.block_taps(), dst);
    add_planes(prelude, blocks);
    add_raw_boxes(prelude, problem, blocks, outer_raw_rows(problem, tile.width));
    prelude.add(product_source(problem, tile));
    return {"outer.cuh", prelude.str(), "outer", outer_shared_bytes(problem, tile)};
}

Answer answer_outer(const Question& question) {
    std::string reason = reject(question);
    if (!reason.empty()) return {std::move(reason), {}};
    const std::vector<OuterTile> tiles = best_outer_tiles(question.problem, question.device, question.most_candidates);
    return answer_with_tiles<OuterKernel>(question, tiles, outer_items);
}

} // namespace tconv3d::cuda
