// Inside the namespace of one problem, behind its kernel; kGiven and kArguments come before.
DirectGatherArguments args;
Output output;

bool is_exact() {
    const direct::Tensors<Storage> tensors(kGiven);
    const std::vector<double> exact = direct::exact_grad_src(kGiven, tensors);
    check::GuardedValues<Storage> grad_src = check::poisoned<Storage>(exact.size());
    static_assert(sizeof args == sizeof kArguments);
    std::memcpy(&args, kArguments, sizeof args);
    args.in = tensors.grad_dst.data();
    args.weight = tensors.weight.data();
    output.dst = grad_src.data();
    direct::launch(kThreads, [] { direct_bwd_data(args, output); });
    return check::differences(grad_src, exact, "grad_src") == 0;
}
