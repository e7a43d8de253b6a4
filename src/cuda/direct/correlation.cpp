#include <algorithm>
#include <array>
#include <vector>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {
namespace {

/// Kernels of the weight, which is (src channels, dst channels, taps), from an input or output channel to the next.
int64_t in_weight_stride(const Problem& problem) {
    return is_fwd(problem) ? problem.dst_channels_per_group() : 1;
}
int64_t out_weight_stride(const Problem& problem) {
    return is_fwd(problem) ? 1 : problem.dst_channels_per_group();
}

class DirectCorrelation final : public Kernel {
public:
    DirectCorrelation(const Problem& problem, const Epilogue& epilogue, const Device& device)
        : direction_(problem.direction), epilogue_(epilogue),
          kernels_(device, problem.direction,
                   [problem, epilogue](const ResultForm& form) {
                       return direct_correlation_request(problem, epilogue, form);
                   }),
          args_(direct_correlation_arguments(problem)), block_(direct_thread_channels(problem)) {}

    size_t workspace_bytes() const override { return 0; }

    void load(const Arguments& arguments, void* stream) const override { kernels_.get(arguments, stream); }

    void compile(bool saves_preactivation) const override { kernels_.compile(saves_preactivation); }

    void execute(const Arguments& arguments, void* stream, void*) const override {
        const bool fwd = direction_ == Direction::fwd;
        DirectCorrelationArguments args = args_;
        args.in = fwd ? arguments.src : arguments.grad_dst;
        args.weight = arguments.weight;
        std::vector<const void*> output =
            output_argument(epilogue_, arguments, fwd ? arguments.dst : arguments.grad_src);
        std::array<void*, 2> kernel_arguments = {&args, static_cast<void*>(output.data())};
        const int64_t blocks = std::min(cuts(args.items, kDirectThreads), kMostBlocks);
        launch(*kernels_.get(arguments, stream), {blocks}, {kDirectThreads}, kernel_arguments.data(), stream);
    }

    std::string describe() const override {
        return "gathers one voxel x " + std::to_string(block_) + " channels in a thread";
    }

private:
    Direction direction_;
    Epilogue epilogue_;
    Specializations kernels_;
    DirectCorrelationArguments args_;
    int64_t block_;
};

} // namespace

std::unique_ptr<Kernel> prepare_direct_correlation(const Problem& problem, const Epilogue& epilogue,
                                                   const Device& device) {
    return std::make_unique<DirectCorrelation>(problem, epilogue, device);
}

/// In channels-last the neighbouring thread has the neighbouring channel.
int64_t direct_thread_channels(const Problem& problem) {
    return problem.channels_last() ? 1 : std::min<int64_t>(out_channels(problem), 4);
}

DirectCorrelationArguments direct_correlation_arguments(const Problem& problem) {
    const int64_t blocks = problem.groups * cuts(out_channels(problem), direct_thread_channels(problem));
    const int64_t voxels = is_fwd(problem) ? problem.dst_voxels() : problem.src_voxels();
    return {nullptr, nullptr, voxel_extents(in_extents(problem)), voxel_extents(out_extents(problem)),
            problem.batch * blocks * voxels};
}

KernelRequest direct_correlation_request(const Problem& problem, const Epilogue& epilogue, const ResultForm& form) {
    const std::string prelude = Prelude()
                                    .add(direct_prelude(problem, epilogue, form))
                                    .constant("kInChannels", in_channels(problem))
                                    .constant("kOutChannels", out_channels(problem))
                                    .constant("kWeightIn", in_weight_stride(problem))
                                    .constant("kWeightOut", out_weight_stride(problem))
                                    .constant("kBlock", direct_thread_channels(problem))
                                    .str();
    const std::string entry = std::string("direct_") + name(problem.direction);
    return {entry + ".cuh", prelude, entry, 0};
}

} // namespace tconv3d::cuda
