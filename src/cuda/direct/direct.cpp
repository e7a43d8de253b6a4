#include "cuda/direct/direct.hpp"

#include <algorithm>

#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"

namespace tconv3d::cuda {

std::string reject_direct(const Problem& problem, const Epilogue&, const Device&) {
    // The products of indexes modulo a stride must fit in 64 bits, and channel numbers in 32.
    constexpr int64_t kLimit = int64_t{1} << 31;
    for (const int64_t stride : problem.stride)
        if (stride >= kLimit) return "takes strides below 2147483648, got " + str(problem.stride);
    if (std::max(problem.src_channels, problem.dst_channels) >= kLimit / 2)
        return "takes fewer than 1073741824 channels, got " + std::to_string(problem.src_channels) + " and " +
               std::to_string(problem.dst_channels);
    return "";
}

double direct_cost(const Problem& problem, const Epilogue&, const Device& device) {
    // Every product loads both of its factors through L1: about 2 TFLOP/s on 132 multiprocessors.
    const double flops_per_microsecond = 2e6 * device.multiprocessors / 132 / (problem.dtype == DType::f64 ? 2 : 1);
    constexpr double kBytesPerMicrosecond = 4e6, kLaunch = 5;
    double work = problem.flops() / flops_per_microsecond;
    if (problem.direction != Direction::bwd_weight) {
        // The 64-bit index arithmetic of a voxel, about 500 instructions.
        const int64_t results = problem.direction == Direction::fwd ? problem.dst_elements() : problem.src_elements();
        const double voxels = static_cast<double>(results) / static_cast<double>(direct_gather_block(problem));
        const double voxels_per_microsecond = 1.5e5 * device.multiprocessors / 132;
        work += voxels / voxels_per_microsecond;
    }
    return kLaunch + std::max(work, problem.bytes() / kBytesPerMicrosecond);
}

std::unique_ptr<Kernel> prepare_direct(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                       const std::string&) {
    return problem.direction == Direction::bwd_weight ? prepare_direct_bwd_weight(problem, device)
                                                      : prepare_direct_gather(problem, epilogue, device);
}

KernelRequest direct_request(const Problem& problem, const Epilogue& epilogue, bool has_bias,
                             bool saves_preactivation) {
    return problem.direction == Direction::bwd_weight
               ? direct_bwd_weight_request(problem)
               : direct_gather_request(problem, epilogue, has_bias, saves_preactivation);
}

std::string direct_prelude(const Problem& problem, const Epilogue& epilogue, bool has_bias, bool saves_preactivation) {
    return Prelude()
        .add(output_source(problem, epilogue, has_bias, saves_preactivation))
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
