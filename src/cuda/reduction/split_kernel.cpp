#include "cuda/reduction/split_kernel.hpp"

#include <future>
#include <utility>

namespace tconv3d::cuda {

SplitKernel::SplitKernel(const Problem& problem, const Device& device, int64_t splits,
                         std::function<KernelRequest()> products)
    : bias_args_(reduction_bias_arguments(problem, device)), bias_ctas_(reduction_bias_ctas(problem, device)),
      sums_(reduction_split_sums(problem, splits, device)), weight_sums_(sums_.weight.count() * splits),
      products_(device, std::move(products)), bias_(device, [problem] { return reduction_bias_request(problem); }),
      add_(problem, device, sums_) {}

size_t SplitKernel::workspace_bytes() const {
    return static_cast<size_t>(weight_sums_ + sums_.bias.count() * sums_.bias.splits) * sizeof(float);
}

/// Side by side: each is compiled for a while when it is new.
void SplitKernel::load(const Arguments& arguments, void* stream) const {
    std::vector<std::future<void>> loading;
    const auto begin = [&](const LoadedFunction& function) {
        if (!function.is_loaded()) loading.push_back(std::async([&] { function.get(stream); }));
    };
    if (arguments.grad_bias != nullptr) begin(bias_);
    if (has_second_pass(arguments)) begin(add_.function());
    products_.get(stream);
    for (std::future<void>& each : loading) each.get();
}

void SplitKernel::compile(bool) const {
    std::vector<std::future<void>> compiling;
    for (const LoadedFunction* function : {&products_, &bias_, &add_.function()})
        compiling.push_back(std::async([function] { function->compile(); }));
    for (std::future<void>& each : compiling) each.get();
}

void SplitKernel::execute(const Arguments& arguments, void* stream, void* workspace) const {
    auto* const weight_sums = static_cast<float*>(workspace);
    auto* const bias_sums = weight_sums + weight_sums_;
    launch_products(products_, arguments, weight_sums_ > 0 ? weight_sums : arguments.grad_weight, stream);
    if (arguments.grad_bias != nullptr) {
        ReductionBiasArguments bias_args = bias_args_;
        bias_args.grad_dst = arguments.grad_dst;
        bias_args.sums = bias_sums;
        start(bias_, bias_ctas_, ReductionTile::kThreads, bias_args, stream);
    }
    if (has_second_pass(arguments)) add_.launch(weight_sums, bias_sums, arguments, stream);
}

bool SplitKernel::has_second_pass(const Arguments& arguments) const {
    return weight_sums_ > 0 || arguments.grad_bias != nullptr;
}

} // namespace tconv3d::cuda
