// Inside the namespace of one problem of fwd or bwd_data, behind its kernel, which takes KERNEL_ARGUMENTS and Output;
// kGiven, kArguments and kIsFwd come before.
KERNEL_ARGUMENTS args;
Output output;

bool is_exact() {
    const direct::Tensors<Storage> tensors(kGiven);
    const std::vector<double> exact =
        kIsFwd ? direct::exact_dst(kGiven, tensors) : direct::exact_grad_src(kGiven, tensors);
    check::GuardedValues<Storage> results = check::poisoned<Storage>(exact.size());
    static_assert(sizeof args == sizeof kArguments);
    std::memcpy(&args, kArguments, sizeof args);
    args.in = kIsFwd ? tensors.src.data() : tensors.grad_dst.data();
    args.weight = tensors.weight.data();
    output.out = results.data();
    output.bias = tensors.bias.data(); // bwd_data does not read it
    direct::launch(kThreads, [] { KERNEL_ENTRY(args, output); });
    return check::differences(results, exact, kIsFwd ? "dst" : "grad_src") == 0;
}
