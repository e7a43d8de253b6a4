#include "cuda/splits/add_splits.hpp"

#include <algorithm>
#include <array>

#include "core/cuts.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kAddThreads = 512;

int64_t wanted_ctas(const SplitSums& sums) {
    return cuts(sums.count(), kAddThreads / sums.sharers());
}

} // namespace

KernelRequest add_splits_request(const Problem& problem) {
    const std::string prelude = Prelude().add(element_types(problem)).constant("kThreads", kAddThreads).str();
    return {"add_splits.cuh", prelude, "add_splits", 0};
}

AddSplits::AddSplits(const Problem& problem, const Device& device, const AddSplitsArguments& sums)
    : sums_(sums), multiprocessors_(device.multiprocessors),
      function_(device, [problem] { return add_splits_request(problem); }) {}

void AddSplits::launch(const void* weight_sums, const void* bias_sums, const Arguments& arguments, void* stream) const {
    AddSplitsArguments args = sums_;
    args.weight.sums = weight_sums;
    args.weight.results = arguments.grad_weight;
    args.bias.sums = bias_sums;
    args.bias.results = arguments.grad_bias;
    if (arguments.grad_bias == nullptr) args.bias.rows = 0;
    constexpr int64_t kCtas = 4; // of a multiprocessor: more would wait
    const int64_t wanted = std::max(wanted_ctas(args.weight), wanted_ctas(args.bias));
    std::array<void*, 1> kernel_arguments = {&args};
    cuda::launch(*function_.get(stream), {std::min(wanted, kCtas * multiprocessors_)}, {kAddThreads},
                 kernel_arguments.data(), stream);
}

} // namespace tconv3d::cuda
