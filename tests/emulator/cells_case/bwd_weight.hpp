// Inside the namespace of one problem of bwd_weight, behind its kernel, which leaves partial sums; kGiven, kArguments,
// kAddArguments and kWithBias come before.
KERNEL_ARGUMENTS args;
tconv3d::cuda::AddSplitsArguments add_args;

namespace add {
constexpr int kThreads = 64;
#define add_splits JOINED(KERNEL_ENTRY, _add)
#include "add_splits.cuh"
} // namespace add

bool is_exact() {
    const direct::Tensors<Storage> tensors(kGiven);
    const std::vector<double> exact_weight = direct::exact_grad_weight(kGiven, tensors);
    const std::vector<double> exact_bias = direct::exact_grad_bias(kGiven, tensors);
    check::GuardedValues<Storage> grad_weight = check::poisoned<Storage>(exact_weight.size());
    check::GuardedValues<Storage> grad_bias = check::poisoned<Storage>(exact_bias.size());
    add_args = direct::from_bytes<tconv3d::cuda::AddSplitsArguments>(kAddArguments);
    const int64_t all_sums = add_args.weight.splits * add_args.weight.split_pitch;
    check::GuardedValues<Compute> partials(all_sums, Compute(check::kPoison));
    args = direct::from_bytes<KERNEL_ARGUMENTS>(kArguments);
    args.src = tensors.src.data();
    args.grad_dst = tensors.grad_dst.data();
    args.partials = partials.data();
    args.sums_bias = kWithBias;
    direct::launch(kThreads, [] { KERNEL_ENTRY(args); });
    direct::place_sums(add_args.weight, partials.data(), grad_weight.data());
    direct::place_sums(add_args.bias, partials.data() + exact_weight.size(), kWithBias ? grad_bias.data() : nullptr);
    direct::launch(add::kThreads, [] { add::add_splits(add_args); });
    const std::vector<double> expected_bias = kWithBias ? exact_bias : std::vector<double>();
    return check::differences(grad_weight, exact_weight, "grad_weight") == 0 &&
           check::differences(grad_bias, expected_bias, "grad_bias") == 0;
}
#undef add_splits
