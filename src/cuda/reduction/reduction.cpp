#include "cuda/reduction/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cuda/reduction/split_kernel.hpp"

namespace tconv3d::cuda {
namespace {

class ReductionKernel final : public SplitKernel {
public:
    ReductionKernel(const Problem& problem, const Device& device, const ReductionTile& tile)
        : SplitKernel(problem, device, tile.splits, [problem, tile] { return reduction_request(problem, tile); }),
          tile_(tile), args_(reduction_arguments(problem, tile)), items_(split_items(problem, tile) * tile.splits) {}

    std::string describe() const override {
        return "mma.sync, reduced over voxels: " + tile_.str() + ", about " +
               std::to_string(std::lround(tile_.microseconds)) + " us";
    }

private:
    void launch_products(const LoadedFunction& products, const Arguments& arguments, void* sums,
                         void* stream) const override {
        ReductionArguments args = args_;
        args.src = arguments.src;
        args.grad_dst = arguments.grad_dst;
        args.sums = sums;
        start(products, items_, ReductionTile::kThreads, args, stream);
    }

    ReductionTile tile_;
    ReductionArguments args_;
    int64_t items_;
};

/// Why 32-bit coordinates cannot serve the problem; empty when they can.
std::string reject_extents(const Problem& problem) {
    // More than any GPU has memory for: whatever is counted then fits in 64 bits.
    constexpr int64_t kMostElements = int64_t{1} << 38;
    if (std::max({problem.src_elements(), problem.dst_elements(), problem.weight_elements()}) >= kMostElements ||
        problem.batch >= kMostElements)
        return "takes tensors of fewer than 2^38 elements, got " + problem.str();
    // Then no index of a tap is beyond four times that, inside dst or not.
    constexpr int64_t kLimit = int64_t{1} << 29;
    const Extents dst = problem.dst();
    for (const Extents& extents : {problem.src, dst, problem.kernel, problem.padding})
        if (*std::max_element(extents.begin(), extents.end()) >= kLimit)
            return "takes extents and padding below 2^29, got " + str(problem.src) + " to " + str(dst) + ", kernel " +
                   str(problem.kernel) + ", padding " + str(problem.padding);
    if (std::max(problem.src_channels, problem.dst_channels) >= kLimit)
        return "takes fewer than 2^29 channels, got " + std::to_string(problem.src_channels) + " and " +
               std::to_string(problem.dst_channels);
    return "";
}

std::string reject(const Question& question) {
    const Problem& problem = question.problem;
    if (problem.direction != Direction::bwd_weight)
        return std::string("takes bwd_weight, got ") + name(problem.direction);
    if (question.device.sm < 80)
        return "mma.sync needs compute capability 8.0, got " + std::to_string(question.device.sm / 10) + "." +
               std::to_string(question.device.sm % 10);
    if (problem.dtype == DType::f64) return "tensor cores take f32, bf16 and f16, got f64";
    std::string reason = reject_extents(problem);
    // A product of split fp32 lacks some 2^-24 of itself: low by low, and what rounding leaves of the low parts. That
    // grows with the root of the number of products, but the error of adding these one after the other, 2^-25 of the
    // sum each time, with the number itself: from about 64 on it is the larger one. What tensor cores cut off comes to
    // the error of the products, because kSummedSteps are few.
    constexpr int64_t kFewestProducts = 64;
    const int64_t products = problem.batch * problem.src_voxels();
    if (reason.empty() && reduction_parts(problem) == 2 && products < kFewestProducts)
        reason = "f32 in parts would be less accurate than PyTorch in sums of fewer than 64 products, got " +
                 std::to_string(products);
    return reason;
}

} // namespace

Answer answer_reduce(const Question& question) {
    std::string reason = reject(question);
    if (!reason.empty()) return {std::move(reason), {}};
    return answer_with_tiles<ReductionKernel>(
        question, best_reduction_tiles(question.problem, question.device, question.most_candidates), split_items);
}

} // namespace tconv3d::cuda
