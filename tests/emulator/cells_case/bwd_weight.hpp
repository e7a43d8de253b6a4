// Inside the namespace of one problem of bwd_weight, behind its kernel, which leaves partial sums; kGiven, kArguments,
// kWithBias and kSplits come before.
KERNEL_ARGUMENTS args;
tconv3d::cuda::AddSplitsArguments add_args;

namespace add {
constexpr int kThreads = 64;
#define cells_add_splits JOINED(KERNEL_ENTRY, _add)
#include "cells_add_splits.cuh"
} // namespace add

bool is_exact() {
    const direct::Tensors<Storage> tensors(kGiven);
    const std::vector<double> exact_weight = direct::exact_grad_weight(kGiven, tensors);
    const std::vector<double> exact_bias = direct::exact_grad_bias(kGiven, tensors);
    check::GuardedValues<Storage> grad_weight = check::poisoned<Storage>(exact_weight.size());
    check::GuardedValues<Storage> grad_bias = check::poisoned<Storage>(exact_bias.size());
    const size_t sums = exact_weight.size() + exact_bias.size();
    check::GuardedValues<Compute> partials(kSplits * sums, Compute(check::kPoison));
    static_assert(sizeof args == sizeof kArguments);
    std::memcpy(&args, kArguments, sizeof args);
    args.src = tensors.src.data();
    args.grad_dst = tensors.grad_dst.data();
    args.partials = partials.data();
    args.sums_bias = kWithBias;
    direct::launch(kThreads, [] { KERNEL_ENTRY(args); });
    add_args = {partials.data(),
                grad_weight.data(),
                kWithBias ? grad_bias.data() : nullptr,
                static_cast<int64_t>(exact_weight.size()),
                static_cast<int64_t>(exact_bias.size()),
                kSplits};
    direct::launch(add::kThreads, [] { add::cells_add_splits(add_args); });
    const std::vector<double> expected_bias = kWithBias ? exact_bias : std::vector<double>();
    return check::differences(grad_weight, exact_weight, "grad_weight") == 0 &&
           check::differences(grad_bias, expected_bias, "grad_bias") == 0;
}
#undef cells_add_splits
