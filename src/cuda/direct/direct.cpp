#include "cuda/direct/direct.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kThreads = 128;
constexpr int64_t kMostBlocks = 2147483647;

/// Output channels of a thread. In channels-last the neighbouring thread has the neighbouring channel.
int64_t channel_block(const Problem& problem) {
    return problem.channels_last() ? 1 : std::min<int64_t>(problem.dst_channels_per_group(), 4);
}

int64_t channel_blocks(const Problem& problem) {
    const int64_t block = channel_block(problem);
    return problem.groups * ((problem.dst_channels_per_group() + block - 1) / block);
}

/// x with value · x = 1 modulo `modulus`, for coprime ones: Euclid's algorithm.
int64_t inverse(int64_t value, int64_t modulus) {
    int64_t rest = modulus, next = value % modulus;
    int64_t factor = 0, next_factor = 1 % modulus;
    while (next != 0) {
        const int64_t quotient = rest / next;
        rest = std::exchange(next, rest - quotient * next);
        factor = std::exchange(next_factor, factor - quotient * next_factor);
    }
    return (factor % modulus + modulus) % modulus;
}

class DirectKernel final : public Kernel {
public:
    DirectKernel(const Problem& problem, const Epilogue& epilogue, const Device& device)
        : epilogue_(epilogue), kernels_(device,
                                        [problem, epilogue](const ResultForm& form) {
                                            return direct_request(problem, epilogue, form);
                                        }),
          args_(direct_arguments(problem)), channel_block_(channel_block(problem)) {}

    size_t workspace_bytes() const override { return 0; }

    void load(const Arguments& arguments, void* stream) const override { kernels_.get(arguments, stream); }

    void execute(const Arguments& arguments, void* stream, void*) const override {
        DirectArgs args = args_;
        args.in = arguments.src;
        args.weight = arguments.weight;
        std::vector<const void*> output = output_argument(epilogue_, arguments);
        std::array<void*, 2> kernel_arguments = {&args, static_cast<void*>(output.data())};
        const int64_t blocks = std::min((args.items + kThreads - 1) / kThreads, kMostBlocks);
        launch(kernels_.get(arguments, stream), {blocks}, {kThreads}, kernel_arguments.data(), stream);
    }

    std::string describe() const override {
        return "gathers one voxel x " + std::to_string(channel_block_) + " channels in a thread";
    }

private:
    Epilogue epilogue_;
    Specializations kernels_;
    DirectArgs args_;
    int64_t channel_block_;
};

std::string reject(const Problem& problem) {
    if (problem.direction != Direction::fwd) return std::string("takes fwd, got ") + name(problem.direction);
    // The products of indexes modulo a stride must fit in 64 bits, and channel numbers in 32.
    constexpr int64_t kLimit = int64_t{1} << 31;
    for (const int64_t stride : problem.stride)
        if (stride >= kLimit) return "takes strides below 2147483648, got " + str(problem.stride);
    if (std::max(problem.src_channels, problem.dst_channels) >= kLimit / 2)
        return "takes fewer than 1073741824 channels, got " + std::to_string(problem.src_channels) + " and " +
               std::to_string(problem.dst_channels);
    return "";
}

double cost(const Problem& problem, const Device& device) {
    // Every product loads both of its factors through L1: about 2 TFLOP/s on 132 multiprocessors.
    const double flops_per_microsecond = 2e6 * device.multiprocessors / 132 / (problem.dtype == DType::f64 ? 2 : 1);
    // The 64-bit index arithmetic of an output, about 500 instructions.
    const double outputs = static_cast<double>(problem.dst_elements()) / static_cast<double>(channel_block(problem));
    const double outputs_per_microsecond = 1.5e5 * device.multiprocessors / 132;
    constexpr double kBytesPerMicrosecond = 4e6, kLaunch = 5;
    const double work = problem.flops() / flops_per_microsecond + outputs / outputs_per_microsecond;
    return kLaunch + std::max(work, problem.bytes() / kBytesPerMicrosecond);
}

} // namespace

Answer answer_direct(const Question& question) {
    std::string reason = reject(question.problem);
    if (!reason.empty()) return {std::move(reason), {}};
    const auto prepare = [problem = question.problem, epilogue = question.epilogue, device = question.device] {
        return std::make_unique<DirectKernel>(problem, epilogue, device);
    };
    return {"", {{"", cost(question.problem, question.device), prepare}}};
}

DirectArgs direct_arguments(const Problem& problem) {
    return {nullptr, nullptr, problem.src, problem.dst(),
            problem.batch * channel_blocks(problem) * problem.dst_voxels()};
}

KernelRequest direct_request(const Problem& problem, const Epilogue& epilogue, const ResultForm& form) {
    Extents gcds{}, inverses{};
    for (size_t i = 0; i < 3; ++i) {
        gcds[i] = std::gcd(problem.stride[i], problem.dilation[i]);
        inverses[i] = inverse(problem.dilation[i] / gcds[i], problem.stride[i] / gcds[i]);
    }
    Prelude prelude;
    prelude.add(output_source(problem, epilogue, form))
        .flag("kAddsAbsentBias", false)
        .extents("kKernel", problem.kernel)
        .extents("kStride", problem.stride)
        .extents("kPadding", problem.padding)
        .extents("kDilation", problem.dilation)
        .extents("kGcd", gcds)
        .extents("kInverse", inverses)
        .constant("kCi", problem.src_channels_per_group())
        .constant("kCo", problem.dst_channels_per_group())
        .constant("kGroups", problem.groups)
        .constant("kBlock", channel_block(problem))
        .flag("kChannelsLast", problem.channels_last())
        .constant("kThreads", kThreads);
    return {"direct.cuh", prelude.str(), "direct_fwd", 0};
}

} // namespace tconv3d::cuda
