// Inside the namespace of one problem of fwd or bwd_data, behind its kernel; kGiven, kArguments and kFwd come before.
DirectCorrelationArguments args;
Output output;

bool is_exact() {
    const direct::Tensors<Storage> tensors(kGiven);
    const std::vector<double> exact =
        kFwd ? direct::exact_dst(kGiven, tensors) : direct::exact_grad_src(kGiven, tensors);
    check::GuardedValues<Storage> results = check::poisoned<Storage>(exact.size());
    static_assert(sizeof args == sizeof kArguments);
    std::memcpy(&args, kArguments, sizeof args);
    args.in = kFwd ? tensors.src.data() : tensors.grad_dst.data();
    args.weight = tensors.weight.data();
    output.out = results.data();
    output.bias = tensors.bias.data(); // bwd_data does not read it
    direct::launch(kThreads, [] { KERNEL_ENTRY(args, output); });
    return check::differences(results, exact, kFwd ? "dst" : "grad_src") == 0;
}
