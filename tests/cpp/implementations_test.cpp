// Every implementation against the reference, for every instruction set that this machine has.
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "core/implementation.hpp"
#include "cpu/isa.hpp"
#include "reference/reference.hpp"
#include "tensors.hpp"

namespace tconv3d {
namespace {

using testing::BackwardsExecutor;
using testing::ScopedEnvironment;
using testing::Tensor;

/// A line of the problem file: `name: problem   # why it is here`.
struct Listed {
    std::string name;
    std::string line;
};

std::vector<Listed> listed_problems() {
    const std::string path = TCONV3D_PROBLEMS "/correctness.txt";
    std::ifstream file(path);
    EXPECT_TRUE(file.is_open()) << path;
    std::vector<Listed> list;
    for (std::string text; std::getline(file, text);) {
        text = text.substr(0, text.find('#'));
        const size_t colon = text.find(':');
        if (colon != std::string::npos) list.push_back({text.substr(0, colon), text.substr(colon + 1)});
    }
    EXPECT_GE(list.size(), 150u) << path;
    return list;
}

/// The tensors of one execution. Integers small enough for exact sums in every dtype.
class Execution {
public:
    Execution(const Problem& problem, const Epilogue& epilogue, bool integers)
        : problem_(problem), epilogue_(epilogue), integers_(integers), src_(input(problem.src_elements())),
          weight_(input(problem.weight_elements())), bias_(input(problem.dst_channels)),
          grad_dst_(input(problem.dst_elements())) {
        for (const Step& step : epilogue.steps())
            if (step.operand >= 0)
                operands_.push_back(input(takes_channel(step.kind) ? problem.dst_channels : problem.dst_elements()));
    }

    /// The outputs, poisoned before the run: what is not written stays NaN.
    std::vector<Tensor> run(const Kernel& kernel, Executor& executor) const {
        std::vector<Tensor> outputs;
        Arguments arguments;
        const auto add = [&](int64_t count) { outputs.emplace_back(problem_.dtype, count); };
        arguments.src = src_.data();
        arguments.weight = weight_.data();
        arguments.bias = epilogue_.empty() ? nullptr : bias_.data();
        arguments.grad_dst = grad_dst_.data();
        for (const Tensor& operand : operands_) arguments.operands.push_back(operand.data());
        switch (problem_.direction) {
        case Direction::fwd:
            add(problem_.dst_elements());
            add(problem_.dst_elements());
            arguments.dst = outputs[0].data();
            arguments.preactivation = outputs[1].data();
            break;
        case Direction::bwd_data:
            add(problem_.src_elements());
            arguments.grad_src = outputs[0].data();
            break;
        case Direction::bwd_weight:
            add(problem_.weight_elements());
            add(problem_.dst_channels);
            arguments.grad_weight = outputs[0].data();
            arguments.grad_bias = outputs[1].data();
            break;
        }
        execute(kernel, arguments, executor);
        for (const Tensor& output : outputs) EXPECT_TRUE(output.guards_intact()) << "wrote outside of an output";
        return outputs;
    }

private:
    Tensor input(int64_t count) {
        if (!integers_) return Tensor::reals(problem_.dtype, count, random_);
        const bool half = bytes_per_element(problem_.dtype) == 2;
        return Tensor::integers(problem_.dtype, count, half ? 1 : 3, random_);
    }

    /// With a workspace full of NaN, aligned to 64 and no more, and guarded behind.
    static void execute(const Kernel& kernel, const Arguments& arguments, Executor& executor) {
        constexpr size_t kAlignment = 64;
        constexpr unsigned char kPoison = 0xFF;
        const size_t bytes = kernel.workspace_bytes(executor.workers());
        std::vector<unsigned char> memory(bytes + 3 * kAlignment, kPoison);
        const size_t misaligned = reinterpret_cast<uintptr_t>(memory.data()) % (2 * kAlignment);
        unsigned char* workspace = memory.data() + (3 * kAlignment - misaligned) % (2 * kAlignment);
        kernel.execute(arguments, executor, workspace);
        EXPECT_TRUE(std::all_of(workspace + bytes, memory.data() + memory.size(),
                                [](unsigned char byte) { return byte == kPoison; }))
            << "wrote behind its workspace of " << bytes << " bytes";
    }

    Problem problem_;
    Epilogue epilogue_;
    bool integers_;
    std::mt19937 random_{42};
    Tensor src_;
    Tensor weight_;
    Tensor bias_;
    Tensor grad_dst_;
    std::vector<Tensor> operands_;
};

void expect_equal(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t output = 0; output < expected.size(); ++output) {
        // To compare element by element takes longer than to compute them.
        if (actual[output].same_bits(expected[output])) continue;
        for (int64_t i = 0; i < expected[output].count(); ++i)
            ASSERT_EQ(actual[output].at(i), expected[output].at(i)) << "output " << output << ", element " << i;
    }
}

/// Calls body(problem) for every dtype, layout and direction of a listed line.
template <typename Body>
void for_every_kind(const std::string& line, const Body& body) {
    for (const char* dtype : {"f32", "f64", "bf16", "f16"})
        for (const char* layout : {"ncdhw", "ndhwc"})
            for (const char* direction : {"fwd", "bwd_data", "bwd_weight"})
                body(Problem::parse(line + " " + dtype + " " + layout + " " + direction));
}

/// Calls body(kernel) for every candidate of every implementation but the reference, on every instruction set of this
/// machine.
template <typename Body>
void for_every_candidate(const Problem& problem, const Epilogue& epilogue, const Body& body) {
    for (const cpu::IsaStatus& status : cpu::isa_statuses()) {
        if (!status.available) continue;
        const ScopedEnvironment isa("TCONV3D_ISA", cpu::name(status.isa));
        for (const Implementation& implementation : implementation_list()) {
            if (implementation.answer == answer_reference) continue;
            SCOPED_TRACE(std::string(implementation.name) + " with " + cpu::name(status.isa) + " on " + problem.str());
            const Answer<Kernel> answer = implementation.answer(problem, epilogue);
            for (const Candidate<Kernel>& candidate : answer.candidates) body(*candidate.prepare());
        }
    }
}

class EveryIsa : public ::testing::TestWithParam<cpu::IsaStatus> {};

/// The other tests run what is available; this one says what they leave out.
TEST_P(EveryIsa, IsCovered) {
    if (!GetParam().available) GTEST_SKIP() << cpu::name(GetParam().isa) << " is not tested: " << GetParam().why;
    const ScopedEnvironment isa("TCONV3D_ISA", cpu::name(GetParam().isa));
    EXPECT_EQ(cpu::chosen_isa(), GetParam().isa);
}

INSTANTIATE_TEST_SUITE_P(Implementations, EveryIsa, ::testing::ValuesIn(cpu::isa_statuses()),
                         [](const auto& instance) { return std::string(cpu::name(instance.param.isa)); });

TEST(Implementations, EqualTheReferenceOnIntegers) {
    SerialExecutor serial;
    BackwardsExecutor three_workers(3);
    for (const Listed& listed : listed_problems())
        for_every_kind(listed.line, [&](const Problem& problem) {
            SCOPED_TRACE(listed.name);
            const Execution execution(problem, {}, true);
            const std::vector<Tensor> expected = execution.run(*prepare_reference(problem, {}), serial);
            for_every_candidate(problem, {}, [&](const Kernel& kernel) {
                expect_equal(execution.run(kernel, three_workers), expected);
            });
        });
}

TEST(Implementations, EqualTheReferenceOnIntegersWithBiasAndEpilogue) {
    const Epilogue epilogue =
        Epilogue::parse("channel_add clamp(min=-4,max=4) mul(2) residual_mul relu residual_add channel_mul add(1)");
    SerialExecutor serial;
    BackwardsExecutor three_workers(3);
    for (const Listed& listed : listed_problems())
        for (const char* kind : {"f32 ncdhw", "f64 ndhwc", "bf16 ndhwc", "f16 ncdhw"}) {
            const Problem problem = Problem::parse(listed.line + " fwd " + kind);
            SCOPED_TRACE(listed.name);
            const Execution execution(problem, epilogue, true);
            const std::vector<Tensor> expected = execution.run(*prepare_reference(problem, epilogue), serial);
            for_every_candidate(problem, epilogue, [&](const Kernel& kernel) {
                expect_equal(execution.run(kernel, three_workers), expected);
            });
        }
}

TEST(Implementations, AgreeOnEveryStep) {
    const Problem problem = Problem::parse("n1 ci3 co4 2x3x19 k3 p1");
    SerialExecutor serial;
    for (const char* chain : {"div(3)", "clamp(min=-0.5)", "leaky_relu(0.1)", "elu(1.5)", "silu", "gelu", "gelu_tanh",
                              "sigmoid", "tanh", "hardswish", "softplus(2,5)", "mish", "silu channel_mul tanh"}) {
        SCOPED_TRACE(chain);
        const Epilogue epilogue = Epilogue::parse(chain);
        const Execution execution(problem, epilogue, false);
        const std::vector<Tensor> expected = execution.run(*prepare_reference(problem, epilogue), serial);
        for_every_candidate(problem, epilogue, [&](const Kernel& kernel) {
            const std::vector<Tensor> actual = execution.run(kernel, serial);
            for (int64_t i = 0; i < expected[0].count(); ++i)
                ASSERT_NEAR(actual[0].at(i), expected[0].at(i), 1e-4) << "element " << i;
        });
    }
}

TEST(Implementations, SameBitsForAnyNumberOfWorkers) {
    SerialExecutor serial;
    BackwardsExecutor seven_workers(7);
    ThreadExecutor threads(2);
    for_every_kind("n2 ci5 co6 3x5x18 k3 s2x1x1 p1", [&](const Problem& problem) {
        const Execution execution(problem, {}, false);
        for_every_candidate(problem, {}, [&](const Kernel& kernel) {
            const std::vector<Tensor> alone = execution.run(kernel, serial);
            for (Executor* executor : {static_cast<Executor*>(&seven_workers), static_cast<Executor*>(&threads)}) {
                const std::vector<Tensor> shared = execution.run(kernel, *executor);
                for (size_t output = 0; output < alone.size(); ++output)
                    ASSERT_TRUE(alone[output].same_bits(shared[output])) << "output " << output;
            }
        });
    });
}

} // namespace
} // namespace tconv3d
