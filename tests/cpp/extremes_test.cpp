// Problems with extreme values, drawn from a seed: every size behind a valid one is checked or bounded, in both
// backends. What matters here shows under the address and undefined-behaviour sanitizers.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "core/implementation.hpp"
#include "cuda/select/family.hpp"
#include "made_up_devices.hpp"
#include "reference/reference.hpp"
#include "tconv3d/plan.hpp"
#include "tensors.hpp"

namespace tconv3d {
namespace {

using testing::error_of;
using testing::Tensor;

class Extremes {
public:
    /// The values that are not extreme are as networks have them, or all small, so that tensors often are.
    Extremes(unsigned seed, bool small_otherwise) : random_(seed), small_otherwise_(small_otherwise) {}

    /// A valid problem, of which some values are extreme.
    Problem next() {
        for (;;) {
            const Problem problem = any();
            if (error_of([&] { problem.validate(); }).empty()) return problem;
        }
    }

private:
    int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }
    bool rarely() { return below(odds_) == 0; }

    int64_t small() { return 1 + below(4); }
    /// Near a power of two up to 2^62, or any number below one.
    int64_t extreme() {
        const int64_t power = int64_t{1} << below(63);
        const int64_t value = below(2) == 0 ? power - 1 + below(3) : 1 + below(power);
        return std::max<int64_t>(value, 1);
    }
    /// As networks have it, and somewhat more.
    int64_t usual() { return small_otherwise_ ? small() : 1 + below(int64_t{1} << below(13)); }
    int64_t value() { return rarely() ? extreme() : below(3) == 0 ? usual() : small(); }
    int64_t channels() { return rarely() ? extreme() : below(2) == 0 && !small_otherwise_ ? 16 * usual() : small(); }

    /// Any, or as much as leaves a small dst of a large one.
    int64_t padding(const Problem& problem, size_t i) {
        int64_t span = 0, reach = 0, dst = 0;
        if (below(4) > (small_otherwise_ ? 2 : 0) ||
            __builtin_mul_overflow(problem.src[i] - 1, problem.stride[i], &span) ||
            __builtin_mul_overflow(problem.kernel[i] - 1, problem.dilation[i], &reach) ||
            __builtin_add_overflow(span, reach, &dst))
            return rarely() ? extreme() : below(3);
        return std::max<int64_t>((dst - below(4)) / 2, 0);
    }

    Problem any() {
        odds_ = int64_t{4} << below(5);
        Problem problem;
        problem.batch = value();
        problem.groups = small() == 1 ? 1 + below(3) : 1;
        const bool scales = !rarely();
        problem.src_channels = channels();
        problem.dst_channels = channels();
        for (int64_t* channels : {&problem.src_channels, &problem.dst_channels})
            if (scales && __builtin_mul_overflow(*channels, problem.groups, channels)) *channels = 1;
        for (size_t i = 0; i < 3; ++i) {
            problem.src[i] = value();
            problem.kernel[i] = value();
            problem.stride[i] = value();
            problem.dilation[i] = value();
            problem.padding[i] = padding(problem, i);
            problem.output_padding[i] = below(4) == 0 ? below(std::max(problem.stride[i], problem.dilation[i])) : 0;
        }
        problem.dtype = std::array{DType::f32, DType::f64, DType::bf16, DType::f16}[static_cast<size_t>(below(4))];
        problem.layout = below(2) == 0 ? Layout::ncdhw : Layout::ndhwc;
        problem.direction =
            std::array{Direction::fwd, Direction::bwd_data, Direction::bwd_weight}[static_cast<size_t>(below(3))];
        if (problem.dtype == DType::f32 && below(2) == 0) problem.math = MathMode::tf32;
        return problem;
    }

    std::mt19937 random_;
    bool small_otherwise_;
    int64_t odds_ = 8; ///< one value of so many is extreme
};

/// Few enough elements, and outputs times taps, for the reference.
bool is_executable(const Problem& problem) {
    constexpr int64_t kMost = 3000;
    const auto small = [](int64_t a, int64_t b) { return a <= kMost / std::max<int64_t>(b, 1); };
    const int64_t src = problem.src_elements(), dst = problem.dst_elements(), weight = problem.weight_elements();
    return src <= kMost && dst <= kMost && weight <= kMost && small(dst, problem.taps()) && small(src, problem.taps());
}

std::vector<double> run(const Problem& problem, const Kernel& kernel) {
    std::mt19937 random(3);
    const Tensor src = Tensor::integers(problem.dtype, problem.src_elements(), 1, random);
    const Tensor weight = Tensor::integers(problem.dtype, problem.weight_elements(), 1, random);
    const Tensor grad_dst = Tensor::integers(problem.dtype, problem.dst_elements(), 1, random);
    Tensor dst(problem.dtype, problem.dst_elements()), grad_src(problem.dtype, problem.src_elements());
    Tensor grad_weight(problem.dtype, problem.weight_elements());
    Arguments arguments;
    arguments.src = src.data();
    arguments.weight = weight.data();
    arguments.grad_dst = grad_dst.data();
    arguments.dst = dst.data();
    arguments.grad_src = grad_src.data();
    arguments.grad_weight = grad_weight.data();
    SerialExecutor executor;
    std::vector<std::max_align_t> workspace(kernel.workspace_bytes(1) / sizeof(std::max_align_t) + 8);
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64;
    kernel.execute(arguments, executor, reinterpret_cast<void*>(aligned));
    for (const Tensor* tensor : {&dst, &grad_src, &grad_weight}) EXPECT_TRUE(tensor->guards_intact());
    if (problem.direction == Direction::fwd) return dst.values();
    return problem.direction == Direction::bwd_data ? grad_src.values() : grad_weight.values();
}

/// Every CPU implementation that accepts it plans the problem; those that fit in memory equal the reference.
TEST(Extremes, OnTheCpu) {
    Extremes extremes(1, true), usual(2, false);
    int executed = 0;
    for (int i = 0; i < 4000; ++i) {
        const Problem problem = i % 4 == 0 ? usual.next() : extremes.next();
        SCOPED_TRACE(problem.str());
        EXPECT_FALSE(Plan(problem).implementation().empty());
        const bool executable = is_executable(problem);
        const std::vector<double> expected =
            executable ? run(problem, *prepare_reference(problem, {})) : std::vector<double>();
        for (const Implementation& implementation : implementation_list()) {
            const Answer<Kernel> answer = implementation.answer(problem, {});
            if (!answer.accepts()) continue;
            const std::unique_ptr<Kernel> kernel = answer.candidates.front().prepare();
            EXPECT_FALSE(kernel->describe().empty());
            size_t bytes = 0;
            const std::string error = error_of([&] { bytes = kernel->workspace_bytes(64); });
            EXPECT_TRUE(!error.empty() || bytes >= kernel->workspace_bytes(1));
            if (!executable) continue;
            ASSERT_EQ(run(problem, *kernel), expected) << implementation.name;
        }
        executed += executable ? 1 : 0;
    }
    EXPECT_GT(executed, 500);
}

/// The same with as many channels as whole tiles of tensor cores have, where that is a problem.
Problem widened(const Problem& problem) {
    Problem wide = problem;
    if (problem.groups > 1 << 20) return problem;
    wide.src_channels = problem.groups * 64;
    wide.dst_channels = problem.groups * 32;
    return error_of([&] { wide.validate(); }).empty() ? wide : problem;
}

/// Every family answers, and what it offers can be prepared; what is chosen is one of these, or there is none.
TEST(Extremes, OnAGpu) {
    Extremes extremes(3, false);
    std::map<std::string, int> accepted;
    for (int i = 0; i < 3000; ++i) {
        const Problem drawn = extremes.next(), problem = i % 5 == 0 ? widened(drawn) : drawn;
        const cuda::Device& device = i % 2 == 0 ? testing::kHopper : testing::kAmpere;
        SCOPED_TRACE(problem.str() + " on " + std::to_string(device.sm));
        bool any = false;
        for (const cuda::Family& family : cuda::families()) {
            const cuda::Answer answer = family.answer({problem, {}, device});
            if (!answer.accepts()) continue;
            any = true;
            ++accepted[family.name];
            EXPECT_GT(answer.candidates.front().microseconds, 0) << family.name;
            EXPECT_FALSE(answer.candidates.front().prepare()->describe().empty()) << family.name;
        }
        EXPECT_EQ(error_of([&] { cuda::choose(problem, {}, device); }).empty(), any);
    }
    for (const cuda::Family& family : cuda::families()) EXPECT_GT(accepted[family.name], 5) << family.name;
}

} // namespace
} // namespace tconv3d
