#include "cuda/epilogue_bwd/epilogue_bwd.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/argument_checks.hpp"
#include "core/cuts.hpp"
#include "cuda/source/epilogue_source.hpp"
#include "cuda/source/prelude.hpp"

namespace tconv3d::cuda {
namespace {

/// Elements of 16 bytes.
int64_t pack_width(const Problem& problem) {
    return 16 / bytes_per_element(problem.dtype);
}

/// For each operand which of the sums of channels its gradient is, -1 for a residual.
std::vector<int64_t> operand_sums(const Epilogue& epilogue) {
    std::vector<int64_t> sums;
    int64_t count = 0;
    for (const Step& step : epilogue.steps())
        if (step.operand >= 0) sums.push_back(takes_channel(step.kind) ? count++ : -1);
    return sums;
}

/// With the bias's, which is the last.
int64_t sum_count(const Epilogue& epilogue, bool with_bias) {
    const std::vector<int64_t> sums = operand_sums(epilogue);
    return std::count_if(sums.begin(), sums.end(), [](int64_t sum) { return sum >= 0; }) + (with_bias ? 1 : 0);
}

/// Whether channels lie side by side in a pack. Where nobody asks for the channel, all elements are alike.
bool has_columns(const Problem& problem, const Epilogue& epilogue, bool with_bias) {
    return problem.channels_last() && sum_count(epilogue, with_bias) > 0;
}

size_t operand_room(const Epilogue& epilogue) {
    return static_cast<size_t>(std::max(epilogue.operand_count(), 1));
}

/// The kernels count on it but for tensors of channels, which they read by element; a batch of 0 may come with any
/// pointer.
void require_aligned_tensors(const Problem& problem, const Epilogue& epilogue, const EpilogueGradients& gradients) {
    constexpr size_t kAlignment = 16;
    if (problem.batch == 0) return;
    require_aligned(gradients.grad_dst, kAlignment, "grad_dst");
    require_aligned(gradients.saved, kAlignment, "saved");
    require_aligned(gradients.grad_preactivation, kAlignment, "grad_preactivation");
    for (const Step& step : epilogue.steps()) {
        if (!takes_residual(step.kind)) continue;
        const auto operand = static_cast<size_t>(step.operand);
        require_aligned(gradients.operands[operand], kAlignment, "operand " + std::to_string(operand));
        if (!gradients.grad_operands.empty())
            require_aligned(gradients.grad_operands[operand], kAlignment, "grad_operand " + std::to_string(operand));
    }
}

/// A thread adds the elements of few packs by itself, which keeps chains short in fp32.
EpilogueBwdArguments planar_arguments(const Problem& problem, bool has_channels) {
    constexpr int64_t kSweeps = 8;
    EpilogueBwdArguments args = {};
    args.channels = has_channels ? problem.dst_channels : 1;
    args.length = has_channels ? problem.dst_voxels() : problem.dst_elements();
    args.chunk = kSweeps * kEpilogueBwdThreads * pack_width(problem);
    args.chunks = cuts(args.length, args.chunk);
    args.items = (has_channels ? problem.batch * problem.dst_channels : 1) * args.chunks;
    args.slots = has_channels ? problem.batch * args.chunks : 0;
    args.places = args.channels;
    return args;
}

EpilogueBwdArguments column_arguments(const Problem& problem) {
    constexpr int64_t kSweeps = 32;
    EpilogueBwdArguments args = {};
    args.channels = problem.dst_channels;
    args.length = problem.dst_elements();
    args.places = std::lcm(problem.dst_channels, pack_width(problem));
    const int64_t row_packs = std::max<int64_t>(args.places / pack_width(problem), 1);
    args.chunk = kSweeps * std::max<int64_t>(kEpilogueBwdThreads / row_packs, 1);
    args.chunks = cuts(cuts(args.length, args.places), args.chunk);
    args.items = args.chunks * cuts(row_packs, kEpilogueBwdThreads);
    args.slots = args.chunks;
    return args;
}

} // namespace

EpilogueBwdArguments epilogue_bwd_arguments(const Problem& problem, const Epilogue& epilogue, bool with_bias) {
    return has_columns(problem, epilogue, with_bias) ? column_arguments(problem)
                                                     : planar_arguments(problem, sum_count(epilogue, with_bias) > 0);
}

std::vector<const void*> epilogue_bwd_tensors(const Epilogue& epilogue, const EpilogueGradients& gradients) {
    const size_t room = operand_room(epilogue);
    std::vector<const void*> pointers = {gradients.grad_dst, gradients.saved, gradients.grad_preactivation};
    const size_t fixed = pointers.size();
    static_assert(sizeof(EpilogueBwdTensors<1>) == 5 * sizeof(void*));
    pointers.insert(pointers.end(), gradients.operands.begin(), gradients.operands.end());
    pointers.resize(fixed + room);
    pointers.insert(pointers.end(), gradients.grad_operands.begin(), gradients.grad_operands.end());
    pointers.resize(fixed + 2 * room);
    return pointers;
}

KernelRequest epilogue_bwd_request(const Problem& problem, const Epilogue& epilogue, bool with_bias) {
    const std::string prelude = Prelude()
                                    .add("#include \"finish/step_derivatives.cuh\"\n")
                                    .add(element_types(problem))
                                    .flag("kChannelsLast", has_columns(problem, epilogue, with_bias))
                                    .flag("kReadsSaved", epilogue.saved() != Saved::nothing)
                                    .constant("kOperands", epilogue.operand_count())
                                    .constant("kOperandRoom", static_cast<int64_t>(operand_room(epilogue)))
                                    .array("kOperandSum", operand_sums(epilogue))
                                    .constant("kSums", sum_count(epilogue, with_bias))
                                    .flag("kSumsBias", with_bias)
                                    .flag("kCallsEpilogue", calls_epilogue_bwd(epilogue, pack_width(problem)))
                                    .constant("kThreads", kEpilogueBwdThreads)
                                    .add(epilogue_bwd_source(epilogue, problem.dtype))
                                    .str();
    return {"epilogue_bwd.cuh", prelude, "epilogue_bwd_packs", 0};
}

KernelRequest epilogue_bwd_sums_request(const Problem& problem) {
    return {"epilogue_bwd_sums.cuh",
            Prelude().add(element_types(problem)).constant("kThreads", kEpilogueBwdThreads).str(), "epilogue_bwd_sums",
            0};
}

EpilogueBwd::EpilogueBwd(const Problem& problem, const Epilogue& epilogue, const Device& device, bool with_bias)
    : problem_(problem), epilogue_(epilogue), with_bias_(with_bias),
      args_(epilogue_bwd_arguments(problem, epilogue, with_bias)),
      packs_(device, [problem, epilogue, with_bias] { return epilogue_bwd_request(problem, epilogue, with_bias); }),
      sums_(device, [problem] { return epilogue_bwd_sums_request(problem); }) {}

int64_t EpilogueBwd::sums() const {
    return sum_count(epilogue_, with_bias_);
}

size_t EpilogueBwd::workspace_bytes() const {
    return static_cast<size_t>(sums() * args_.slots * args_.places) * sizeof(double);
}

void EpilogueBwd::execute(const EpilogueGradients& gradients, void* grad_bias, void* stream, void* workspace) const {
    require_epilogue_gradients(problem_, epilogue_, gradients);
    require_aligned_tensors(problem_, epilogue_, gradients);
    if (with_bias_) require_present(grad_bias, "grad_bias", "epilogue_bwd");
    if (workspace_bytes() > 0) require_present(workspace, "a workspace", "epilogue_bwd");
    // Both are loaded, or none is launched.
    const FunctionPtr packs = packs_.get(stream);
    const FunctionPtr adds = sums() > 0 ? sums_.get(stream) : nullptr;
    EpilogueBwdArguments args = args_;
    args.partials = static_cast<double*>(workspace);
    if (args.items > 0) {
        std::vector<const void*> tensors = epilogue_bwd_tensors(epilogue_, gradients);
        std::array<void*, 2> kernel_arguments = {&args, static_cast<void*>(tensors.data())};
        launch(*packs, {std::min(args.items, kMostBlocks)}, {kEpilogueBwdThreads}, kernel_arguments.data(), stream);
    }
    if (!adds) return;
    const std::vector<int64_t> of_operands = operand_sums(epilogue_);
    for (size_t operand = 0; operand < gradients.grad_operands.size(); ++operand)
        if (of_operands[operand] >= 0)
            add_partials(*adds, of_operands[operand], gradients.grad_operands[operand], args.partials, stream);
    if (with_bias_) add_partials(*adds, sums() - 1, grad_bias, args.partials, stream);
}

void EpilogueBwd::add_partials(const Function& function, int64_t sum, void* gradient, const double* partials,
                               void* stream) const {
    if (gradient == nullptr) return;
    EpilogueBwdSumsArguments args = {partials + sum * args_.slots * args_.places, gradient, args_.channels,
                                     args_.slots * (args_.places / args_.channels)};
    std::array<void*, 1> kernel_arguments = {&args};
    launch(function, {std::min(args.channels, kMostBlocks)}, {kEpilogueBwdThreads}, kernel_arguments.data(), stream);
}

void EpilogueBwd::compile() const {
    packs_.compile();
    if (sums() > 0) sums_.compile();
}

} // namespace tconv3d::cuda
