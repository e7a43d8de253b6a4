#include <algorithm>
#include <array>

#include "core/cuts.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {
namespace {

/// Output channels of a CTA: a factor from src serves them all.
int64_t channel_block(const Problem& problem) {
    return std::min<int64_t>(problem.dst_channels_per_group(), 4);
}

/// Threads that share a row along W, side by side in memory: a power of two, no more than a warp.
int64_t row_lanes(const Problem& problem) {
    int64_t lanes = 1;
    while (lanes < std::min<int64_t>(problem.src[2], 32)) lanes *= 2;
    return lanes;
}

class DirectBwdWeight final : public Kernel {
public:
    DirectBwdWeight(const Problem& problem, const Device& device)
        : function_(device, [problem] { return direct_bwd_weight_request(problem); }),
          args_(direct_bwd_weight_arguments(problem)), block_(channel_block(problem)), lanes_(row_lanes(problem)) {
        blocks_ = cuts(problem.dst_channels_per_group(), block_);
        weights_ = problem.src_channels * blocks_ * problem.taps();
        blocks_ *= problem.groups;
    }

    size_t workspace_bytes() const override { return 0; }

    void load(const Arguments&, void* stream) const override { function_.get(stream); }

    void compile(bool) const override { function_.compile(); }

    void execute(const Arguments& arguments, void* stream, void*) const override {
        DirectBwdWeightArguments args = args_;
        args.src = arguments.src;
        args.grad_dst = arguments.grad_dst;
        args.grad_weight = arguments.grad_weight;
        args.grad_bias = arguments.grad_bias;
        std::array<void*, 1> kernel_arguments = {&args};
        const int64_t items = weights_ + (args.grad_bias != nullptr ? blocks_ : 0);
        launch(*function_.get(stream), {std::min(items, kMostBlocks)}, {kDirectThreads}, kernel_arguments.data(),
               stream);
    }

    std::string describe() const override {
        return "sums one tap x " + std::to_string(block_) + " channels in a CTA, " + std::to_string(lanes_) +
               " threads along a row";
    }

private:
    LoadedFunction function_;
    DirectBwdWeightArguments args_;
    int64_t block_;
    int64_t lanes_;
    int64_t blocks_;  ///< of output channels
    int64_t weights_; ///< taps of all pairs of an input channel and a block of its group
};

} // namespace

std::unique_ptr<Kernel> prepare_direct_bwd_weight(const Problem& problem, const Device& device) {
    return std::make_unique<DirectBwdWeight>(problem, device);
}

DirectBwdWeightArguments direct_bwd_weight_arguments(const Problem& problem) {
    return {
        nullptr, nullptr, nullptr, nullptr, problem.batch, voxel_extents(problem.src), voxel_extents(problem.dst())};
}

KernelRequest direct_bwd_weight_request(const Problem& problem) {
    const std::string prelude = Prelude()
                                    .add(direct_prelude(problem, {}, {}))
                                    .constant("kSrcChannels", problem.src_channels_per_group())
                                    .constant("kDstChannels", problem.dst_channels_per_group())
                                    .constant("kBlock", channel_block(problem))
                                    .constant("kLanes", row_lanes(problem))
                                    .str();
    return {"direct_bwd_weight.cuh", prelude, "direct_bwd_weight", 0};
}

} // namespace tconv3d::cuda
