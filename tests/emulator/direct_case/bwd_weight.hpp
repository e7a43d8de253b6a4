// Inside the namespace of one problem of bwd_weight, behind its kernel; kGiven, kArguments and kWithBias come before.
KERNEL_ARGUMENTS args;

bool is_exact() {
    const direct::Tensors<Storage> tensors(kGiven);
    const std::vector<double> exact_weight = direct::exact_grad_weight(kGiven, tensors);
    const std::vector<double> exact_bias = direct::exact_grad_bias(kGiven, tensors);
    check::GuardedValues<Storage> grad_weight = check::poisoned<Storage>(exact_weight.size());
    check::GuardedValues<Storage> grad_bias = check::poisoned<Storage>(exact_bias.size());
    static_assert(sizeof args == sizeof kArguments);
    std::memcpy(&args, kArguments, sizeof args);
    args.src = tensors.src.data();
    args.grad_dst = tensors.grad_dst.data();
    args.grad_weight = grad_weight.data();
    args.grad_bias = kWithBias ? grad_bias.data() : nullptr;
    direct::launch(kThreads, [] { KERNEL_ENTRY(args); });
    const std::vector<double> expected_bias = kWithBias ? exact_bias : std::vector<double>();
    return check::differences(grad_weight, exact_weight, "grad_weight") == 0 &&
           check::differences(grad_bias, expected_bias, "grad_bias") == 0;
}
