#include "cuda/direct/direct.hpp"

#include <algorithm>
#include <utility>

#include "core/direction.hpp"
#include "cuda/source/prelude.hpp"

namespace tconv3d::cuda {
namespace {

/// Why it cannot take the problem; empty when it can.
std::string reject(const Problem& problem) {
    // The products of indexes modulo a stride must fit in 64 bits, and channel numbers in 32.
    constexpr int64_t kLimit = int64_t{1} << 31;
    for (const int64_t stride : problem.stride)
        if (stride >= kLimit) return "takes strides below 2147483648, got " + str(problem.stride);
    if (std::max(problem.src_channels, problem.dst_channels) >= kLimit / 2)
        return "takes fewer than 1073741824 channels, got " + std::to_string(problem.src_channels) + " and " +
               std::to_string(problem.dst_channels);
    return "";
}

/// Estimated microseconds.
double cost(const Problem& problem, const Device& device) {
    // Every product loads both of its factors through L1: about 2 TFLOP/s on 132 multiprocessors.
    const double flops_per_microsecond = 2e6 * device.multiprocessors / 132 / (problem.dtype == DType::f64 ? 2 : 1);
    constexpr double kBytesPerMicrosecond = 4e6, kLaunch = 5;
    double work = problem.flops() / flops_per_microsecond;
    if (problem.direction != Direction::bwd_weight) {
        // The 64-bit index arithmetic of a voxel, about 500 instructions.
        const double voxels =
            static_cast<double>(out_elements(problem)) / static_cast<double>(direct_thread_channels(problem));
        const double voxels_per_microsecond = 1.5e5 * device.multiprocessors / 132;
        work += voxels / voxels_per_microsecond;
    }
    return kLaunch + std::max(work, problem.bytes() / kBytesPerMicrosecond);
}

} // namespace

Answer answer_direct(const Question& question) {
    std::string reason = reject(question.problem);
    if (!reason.empty()) return {std::move(reason), {}};
    const auto prepare = [problem = question.problem, epilogue = question.epilogue, device = question.device] {
        return problem.direction == Direction::bwd_weight ? prepare_direct_bwd_weight(problem, device)
                                                          : prepare_direct_correlation(problem, epilogue, device);
    };
    return {"", {{"", cost(question.problem, question.device), prepare}}};
}

KernelRequest direct_request(const Problem& problem, const Epilogue& epilogue, const ResultForm& form) {
    return problem.direction == Direction::bwd_weight ? direct_bwd_weight_request(problem)
                                                      : direct_correlation_request(problem, epilogue, form);
}

std::string direct_prelude(const Problem& problem, const Epilogue& epilogue, const ResultForm& form) {
    return Prelude()
        .add(output_source(problem, epilogue, form, direct_thread_channels(problem)))
        .flag("kAddsAbsentBias", false)
        .extents("kKernel", problem.kernel)
        .extents("kStride", problem.stride)
        .extents("kPadding", problem.padding)
        .extents("kDilation", problem.dilation)
        .constant("kGroups", problem.groups)
        .flag("kChannelsLast", problem.channels_last())
        .constant("kThreads", kDirectThreads)
        .str();
}

VoxelExtents voxel_extents(const Extents& extents) {
    return {extents[0], extents[1], extents[2]};
}

} // namespace tconv3d::cuda
