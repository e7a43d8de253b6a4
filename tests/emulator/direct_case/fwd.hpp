// Inside the namespace of one problem, behind its kernel; kGiven and kArguments come before.
DirectGatherArguments args;
Output output;

bool is_exact() {
    const direct::Tensors<Storage> tensors(kGiven);
    const std::vector<double> exact = direct::exact_dst(kGiven, tensors);
    check::GuardedValues<Storage> dst = check::poisoned<Storage>(exact.size());
    static_assert(sizeof args == sizeof kArguments);
    std::memcpy(&args, kArguments, sizeof args);
    args.in = tensors.src.data();
    args.weight = tensors.weight.data();
    output.dst = dst.data();
    output.bias = tensors.bias.data();
    direct::launch(kThreads, [] { direct_fwd(args, output); });
    return check::differences(dst, exact, "dst") == 0;
}
