#include <algorithm>
#include <array>
#include <vector>

#include "cuda/direct/direct.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kMostBlocks = 2147483647;

/// One side of the gather: the tensor that it reads or the one that it writes.
struct Side {
    Extents extents;
    int64_t channels;      ///< of a group
    int64_t weight_stride; ///< kernels of weight from a channel to its neighbour
};

Side src_side(const Problem& problem) {
    return {problem.src, problem.src_channels_per_group(), problem.dst_channels_per_group()};
}

Side dst_side(const Problem& problem) {
    return {problem.dst(), problem.dst_channels_per_group(), 1};
}

Side in_side(const Problem& problem) {
    return problem.direction == Direction::fwd ? src_side(problem) : dst_side(problem);
}

Side out_side(const Problem& problem) {
    return problem.direction == Direction::fwd ? dst_side(problem) : src_side(problem);
}

class DirectGather final : public Kernel {
public:
    DirectGather(const Problem& problem, const Epilogue& epilogue, const Device& device)
        : direction_(problem.direction), epilogue_(epilogue),
          variants_(device,
                    [problem, epilogue](bool has_bias, bool saves_preactivation) {
                        return direct_gather_request(problem, epilogue, has_bias, saves_preactivation);
                    }),
          args_(direct_gather_arguments(problem)), block_(direct_gather_block(problem)) {}

    size_t workspace_bytes() const override { return 0; }

    void load(const Arguments& arguments, void* stream) const override {
        if (direction_ == Direction::fwd)
            variants_.get(arguments, stream);
        else
            variants_.get(grad_src_only(arguments), stream);
    }

    void execute(const Arguments& arguments, void* stream, void*) const override {
        if (direction_ == Direction::fwd)
            gather(arguments.src, arguments.weight, arguments, stream);
        else
            gather(arguments.grad_dst, arguments.weight, grad_src_only(arguments), stream);
    }

    std::string describe() const override {
        return "gathers one voxel x " + std::to_string(block_) + " channels in a thread";
    }

private:
    /// As Output takes results: in the place of dst, here with neither bias nor preactivation.
    static Arguments grad_src_only(const Arguments& arguments) {
        Arguments results;
        results.dst = arguments.grad_src;
        return results;
    }

    void gather(const void* in, const void* weight, const Arguments& results, void* stream) const {
        DirectGatherArguments args = args_;
        args.in = in;
        args.weight = weight;
        std::vector<const void*> output = output_argument(epilogue_, results);
        std::array<void*, 2> kernel_arguments = {&args, static_cast<void*>(output.data())};
        const int64_t blocks = std::min((args.items + kDirectThreads - 1) / kDirectThreads, kMostBlocks);
        launch(variants_.get(results, stream), {blocks}, {kDirectThreads}, kernel_arguments.data(), stream);
    }

    Direction direction_;
    Epilogue epilogue_;
    Variants variants_;
    DirectGatherArguments args_;
    int64_t block_;
};

} // namespace

std::unique_ptr<Kernel> prepare_direct_gather(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    return std::make_unique<DirectGather>(problem, epilogue, device);
}

/// In channels-last the neighbouring thread has the neighbouring channel.
int64_t direct_gather_block(const Problem& problem) {
    return problem.channels_last() ? 1 : std::min<int64_t>(out_side(problem).channels, 4);
}

DirectGatherArguments direct_gather_arguments(const Problem& problem) {
    const Side out = out_side(problem);
    const int64_t block = direct_gather_block(problem);
    const int64_t blocks = problem.groups * ((out.channels + block - 1) / block);
    const int64_t voxels = problem.direction == Direction::fwd ? problem.dst_voxels() : problem.src_voxels();
    return {nullptr, nullptr, voxel_extents(in_side(problem).extents), voxel_extents(out.extents),
            problem.batch * blocks * voxels};
}

KernelRequest direct_gather_request(const Problem& problem, const Epilogue& epilogue, bool has_bias,
                                    bool saves_preactivation) {
    const Side in = in_side(problem), out = out_side(problem);
    const std::string prelude = Prelude()
                                    .add(direct_prelude(problem, epilogue, has_bias, saves_preactivation))
                                    .constant("kIn", in.channels)
                                    .constant("kOut", out.channels)
                                    .constant("kWeightIn", in.weight_stride)
                                    .constant("kWeightOut", out.weight_stride)
                                    .constant("kBlock", direct_gather_block(problem))
                                    .str();
    const std::string entry = std::string("direct_") + name(problem.direction);
    return {entry + ".cuh", prelude, entry, 0};
}

} // namespace tconv3d::cuda
