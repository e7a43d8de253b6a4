// Every CUDA implementation against the reference. Needs a GPU; skipped without one.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>

#include "cuda/runtime/context.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "cuda/runtime/shared_library.hpp"
#include "cuda/select/family.hpp"
#include "problem_file.hpp"
#include "tensors.hpp"

namespace tconv3d::cuda {
namespace {

using testing::listed_problems;
using testing::sampled_every;
using testing::Tensor;

/// What the tests need of the driver beyond what the library calls.
struct Memory {
    Result (*allocate)(DevicePointer* pointer, size_t bytes);
    Result (*release)(DevicePointer pointer);
    Result (*to_device)(DevicePointer dst, const void* src, size_t bytes);
    Result (*to_host)(void* dst, DevicePointer src, size_t bytes);
};

const Memory& memory() {
    static const Memory functions = [] {
        const SharedLibrary library("libcuda.so.1");
        Memory found{};
        library.resolve("cuMemAlloc_v2", found.allocate);
        library.resolve("cuMemFree_v2", found.release);
        library.resolve("cuMemcpyHtoD_v2", found.to_device);
        library.resolve("cuMemcpyDtoH_v2", found.to_host);
        return found;
    }();
    return functions;
}

/// Device memory between guard bytes.
class Buffer {
public:
    explicit Buffer(size_t bytes) : image_(bytes + 2 * kGuard, kGuardByte) {
        check(memory().allocate(&pointer_, image_.size()), "cuMemAlloc");
        write(nullptr);
    }
    explicit Buffer(const Tensor& tensor, DType dtype)
        : Buffer(static_cast<size_t>(tensor.count() * bytes_per_element(dtype))) {
        write(tensor.data());
    }
    ~Buffer() { memory().release(pointer_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void* data() const { return reinterpret_cast<void*>(pointer_ + kGuard); }

    /// Copies the content to the host; false when a guard byte has changed.
    bool read(void* host) {
        check(memory().to_host(image_.data(), pointer_, image_.size()), "cuMemcpyDtoH");
        std::copy(image_.begin() + kGuard, image_.end() - kGuard, static_cast<unsigned char*>(host));
        const auto is_guard = [](unsigned char byte) { return byte == kGuardByte; };
        return std::all_of(image_.begin(), image_.begin() + kGuard, is_guard) &&
               std::all_of(image_.end() - kGuard, image_.end(), is_guard);
    }

private:
    static constexpr std::ptrdiff_t kGuard = 256;
    static constexpr unsigned char kGuardByte = 0xA5;

    void write(const void* host) {
        const auto first = static_cast<const unsigned char*>(host);
        const auto count = static_cast<std::ptrdiff_t>(image_.size()) - 2 * kGuard;
        if (host != nullptr) std::copy(first, first + count, image_.begin() + kGuard);
        check(memory().to_device(pointer_, image_.data(), image_.size()), "cuMemcpyHtoD");
    }

    std::vector<unsigned char> image_;
    DevicePointer pointer_ = 0;
};

/// What an execution writes.
struct Result {
    const char* name;
    Tensor tensor;
    void* Arguments::* argument;
};

/// The tensors of one execution, on the host; run() copies them to the device and back.
struct Execution {
    Problem problem;
    Epilogue epilogue;
    Tensor src, weight, bias, grad_dst;
    std::vector<Tensor> operands;

    Execution(const Problem& problem_of, const Epilogue& epilogue_of, bool integers)
        : problem(problem_of), epilogue(epilogue_of), src(make(problem.src_elements(), integers)),
          weight(make(problem.weight_elements(), integers)), bias(make(problem.dst_channels, integers)),
          grad_dst(make(problem.dst_elements(), integers)) {
        for (const Step& step : epilogue.steps())
            if (step.operand >= 0)
                operands.push_back(
                    make(takes_channel(step.kind) ? problem.dst_channels : problem.dst_elements(), integers));
    }

    std::vector<Result> run_reference() const {
        std::vector<Result> results = empty_results();
        Arguments arguments;
        arguments.src = src.data();
        arguments.weight = weight.data();
        arguments.bias = bias.data();
        arguments.grad_dst = grad_dst.data();
        for (const Tensor& operand : operands) arguments.operands.push_back(operand.data());
        for (Result& result : results) arguments.*result.argument = result.tensor.data();
        const testing::ScopedEnvironment forced("TCONV3D_IMPL", "reference");
        SerialExecutor executor;
        tconv3d::Plan(problem, epilogue).execute(arguments, executor);
        return results;
    }

    std::vector<Result> run(const Family& family) const {
        const ContextScope scope(primary_context(device(0)));
        const auto kernel = family.answer({problem, epilogue, device(0)}).candidates.front().prepare();
        const DType dtype = problem.dtype;
        const Buffer device_src(src, dtype), device_weight(weight, dtype), device_bias(bias, dtype);
        const Buffer device_grad_dst(grad_dst, dtype), workspace(kernel->workspace_bytes());
        Arguments arguments;
        arguments.src = device_src.data();
        arguments.weight = device_weight.data();
        arguments.bias = device_bias.data();
        arguments.grad_dst = device_grad_dst.data();
        std::vector<std::unique_ptr<Buffer>> device_operands, device_results;
        for (const Tensor& operand : operands) {
            device_operands.push_back(std::make_unique<Buffer>(operand, dtype));
            arguments.operands.push_back(device_operands.back()->data());
        }
        std::vector<Result> results = empty_results();
        for (const Result& result : results) {
            device_results.push_back(std::make_unique<Buffer>(result.tensor, dtype));
            arguments.*result.argument = device_results.back()->data();
        }
        if (problem.batch > 0 || problem.direction == Direction::bwd_weight)
            kernel->execute(arguments, nullptr, workspace.data());
        for (size_t i = 0; i < results.size(); ++i)
            EXPECT_TRUE(device_results[i]->read(results[i].tensor.data())) << "wrote outside of " << results[i].name;
        return results;
    }

private:
    Tensor make(int64_t count, bool integers) const {
        static std::mt19937 random(1);
        return integers ? Tensor::integers(problem.dtype, count, 2, random)
                        : Tensor::reals(problem.dtype, count, random);
    }

    /// All that the direction can write.
    std::vector<Result> empty_results() const {
        const auto empty = [&](const char* name, int64_t count, void* Arguments::* argument) {
            return Result{name, Tensor(problem.dtype, count), argument};
        };
        switch (problem.direction) {
        case Direction::fwd:
            return {empty("dst", problem.dst_elements(), &Arguments::dst),
                    empty("preactivation", problem.dst_elements(), &Arguments::preactivation)};
        case Direction::bwd_data:
            return {empty("grad_src", problem.src_elements(), &Arguments::grad_src)};
        case Direction::bwd_weight:
            return {empty("grad_weight", problem.weight_elements(), &Arguments::grad_weight),
                    empty("grad_bias", problem.dst_channels, &Arguments::grad_bias)};
        }
        return {};
    }
};

/// The results that are not bit for bit the expected ones.
std::string differences(const std::vector<Result>& results, const std::vector<Result>& expected) {
    std::string names;
    for (size_t i = 0; i < results.size(); ++i)
        if (!results[i].tensor.same_bits(expected[i].tensor)) names += std::string(" ") + results[i].name;
    return names;
}

class OnGpu : public ::testing::Test {
protected:
    void SetUp() override {
        const DriverStatus driver = driver_status();
        if (!driver.available) GTEST_SKIP() << driver.reason;
        const NvrtcStatus nvrtc = nvrtc_status();
        if (!nvrtc.available) GTEST_SKIP() << nvrtc.reason;
    }
};

struct Kind {
    DType dtype;
    MathMode math;
};

constexpr Kind kKinds[] = {{DType::f32, MathMode::full},
                           {DType::f32, MathMode::tf32},
                           {DType::f64, MathMode::full},
                           {DType::bf16, MathMode::full},
                           {DType::f16, MathMode::full}};

constexpr Direction kDirections[] = {Direction::fwd, Direction::bwd_data, Direction::bwd_weight};

/// Each sampled problem in one kind and layout, others in others.
TEST_F(OnGpu, EveryImplementationEqualsTheReferenceOnIntegers) {
    const std::vector<Problem> problems = listed_problems();
    size_t sample = 0;
    for (size_t i = 0; i < problems.size(); i += 3 * sampled_every(), ++sample)
        for (const Direction direction : kDirections) {
            const Kind& kind = kKinds[sample % std::size(kKinds)];
            Problem problem = problems[i];
            problem.dtype = kind.dtype;
            problem.math = kind.math;
            problem.layout = sample / std::size(kKinds) % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
            problem.direction = direction;
            const Epilogue epilogue =
                Epilogue::parse(direction == Direction::fwd ? "channel_mul residual_add relu" : "");
            const Execution execution(problem, epilogue, true);
            const std::vector<Result> expected = execution.run_reference();
            for (const Family& family : families()) {
                if (!family.answer({problem, epilogue, device(0)}).accepts()) continue;
                EXPECT_EQ(differences(execution.run(family), expected), "") << family.name << ": " << problem.str();
            }
        }
}

TEST_F(OnGpu, ABatchOf0HasAGradientOfZero) {
    const Problem problem = Problem::parse("n0 ci3 co4 3x4x5 k3 s2 p1 bwd_weight");
    const Execution execution(problem, {}, true);
    for (const Family& family : families())
        if (family.answer({problem, {}, device(0)}).accepts()) {
            EXPECT_EQ(differences(execution.run(family), execution.run_reference()), "") << family.name;
        }
}

TEST_F(OnGpu, RepeatedRunsGiveTheSameBits) {
    for (const char* line :
         {"n2 ci37 co9 7x8x9 k3 s2 p1", "n1 ci40 co40 6x6x8 k3 p1 tf32", "n1 ci8 co8 5x6x7 k4 s2 g8 ndhwc"})
        for (const Direction direction : kDirections) {
            Problem problem = Problem::parse(line);
            problem.direction = direction;
            const Execution execution(problem, {}, false);
            for (const Family& family : families()) {
                if (!family.answer({problem, {}, device(0)}).accepts()) continue;
                EXPECT_EQ(differences(execution.run(family), execution.run(family)), "")
                    << family.name << ": " << problem.str();
            }
        }
}

TEST_F(OnGpu, EveryStepHasItsValue) {
    for (const char* step : {"add(0.5)", "mul(-3)", "div(4)", "clamp(min=-1,max=0.5)", "relu", "leaky_relu(0.2)",
                             "elu(1.5)", "silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "hardswish", "softplus(2,20)",
                             "mish", "channel_add", "channel_mul", "residual_add", "residual_mul"}) {
        const Problem problem = Problem::parse("n1 ci2 co3 4x5x6 k3 s2 p1");
        const Execution execution(problem, Epilogue::parse(step), false);
        const std::vector<Result> expected = execution.run_reference();
        const Tensor &exact = expected[0].tensor, &preactivation = expected[1].tensor;
        for (const Family& family : families()) {
            if (!family.answer({problem, execution.epilogue, device(0)}).accepts()) continue;
            const Tensor dst = execution.run(family)[0].tensor;
            for (int64_t i = 0; i < problem.dst_elements(); ++i)
                ASSERT_NEAR(dst.at(i), exact.at(i), 2e-5 * (1 + std::abs(exact.at(i))))
                    << family.name << ": " << step << " at " << preactivation.at(i);
        }
    }
}

TEST_F(OnGpu, PlanExplainsItself) {
    const Plan plan(Problem::parse("n1 ci4 co4 5x6x7 k4 s2 p1 g4"), Epilogue::parse("relu"), 0);
    const std::string text = plan.explain();
    for (const std::string& part : {std::string("dst             10x12x14"), device(0).name, plan.implementation()})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    EXPECT_EQ(plan.rejections().size(), implementations().size() - 1);
}

TEST_F(OnGpu, PlanChecksItsArguments) {
    const Plan plan(Problem::parse("n1 ci2 co2 3x3x3 k2"), Epilogue::parse("channel_add"), 0);
    const auto message = [&](const Arguments& arguments) {
        return testing::error_of([&] { plan.execute(arguments, nullptr, nullptr); });
    };
    int memory_of_the_host = 0; // never read: the next argument is missing
    Arguments arguments;
    EXPECT_EQ(message(arguments), "fwd needs src, got a null pointer");
    arguments.src = &memory_of_the_host;
    EXPECT_EQ(message(arguments), "fwd needs weight, got a null pointer");
    arguments.weight = &memory_of_the_host;
    EXPECT_EQ(message(arguments), "fwd needs dst, got a null pointer");
    arguments.dst = &memory_of_the_host;
    EXPECT_EQ(message(arguments), "epilogue 'channel_add' takes 1 tensors, got 0");
}

TEST_F(OnGpu, PlanChecksTheArgumentsOfGradients) {
    const auto message = [](const char* direction, const Arguments& arguments) {
        const Plan plan(Problem::parse(std::string("n1 ci2 co2 3x3x3 k2 ") + direction), {}, 0);
        return testing::error_of([&] { plan.execute(arguments, nullptr, nullptr); });
    };
    alignas(16) int memory_of_the_host[8] = {}; // never read
    Arguments arguments;
    EXPECT_EQ(message("bwd_data", arguments), "bwd_data needs grad_dst, got a null pointer");
    EXPECT_EQ(message("bwd_weight", arguments), "bwd_weight needs src, got a null pointer");
    arguments.src = arguments.weight = arguments.grad_dst = memory_of_the_host;
    EXPECT_EQ(message("bwd_data", arguments), "bwd_data needs grad_src, got a null pointer");
    EXPECT_EQ(message("bwd_weight", arguments), "bwd_weight needs grad_weight, got a null pointer");
    arguments.grad_src = arguments.grad_weight = memory_of_the_host + 1;
    const std::string misaligned =
        " must be aligned to 16 bytes, got an address that is 4 bytes behind a multiple of that";
    EXPECT_EQ(message("bwd_data", arguments), "grad_src" + misaligned);
    EXPECT_EQ(message("bwd_weight", arguments), "grad_weight" + misaligned);
}

TEST_F(OnGpu, PlanTakesAlignedTensors) {
    const Plan plan(Problem::parse("n1 ci2 co2 3x3x3 k2"), {}, 0);
    alignas(16) int memory_of_the_host[8] = {};
    Arguments arguments;
    arguments.src = arguments.dst = memory_of_the_host;
    arguments.weight = memory_of_the_host + 1;
    EXPECT_EQ(testing::error_of([&] { plan.execute(arguments, nullptr, nullptr); }),
              "weight must be aligned to 16 bytes, got an address that is 4 bytes behind a multiple of that");
}

TEST_F(OnGpu, AnEmptyBatchLaunchesNothing) {
    const Plan plan(Problem::parse("n0 ci2 co2 3x3x3 k2"), {}, 0);
    int memory_of_the_host = 0;
    Arguments arguments;
    arguments.weight = &memory_of_the_host;
    EXPECT_NO_THROW(plan.execute(arguments, nullptr, nullptr));
}

} // namespace
} // namespace tconv3d::cuda
