// Inside the namespace of one chain, behind its kernels; kFile, kArguments, kTolerance and kPartials come before.
EpilogueBwdArguments args;
Tensors tensors;
EpilogueBwdSumsArguments sums_args;

bool is_right() {
    epilogue_bwd_case::Tensors<Storage> file(kFile);
    const auto grad_dst = file.next(), saved = file.next();
    std::vector<check::GuardedValues<Storage>> operands, grad_operands;
    for (int i = 0; i < kOperands; ++i) operands.push_back(file.next());
    for (const auto& operand : operands) grad_operands.push_back(check::poisoned<Storage>(operand.size()));
    auto grad_preactivation = check::poisoned<Storage>(grad_dst.size());
    auto grad_bias = check::poisoned<Storage>(static_cast<size_t>(kSumsBias ? kChannels : 0));
    auto partials = check::poisoned<double>(kPartials);

    static_assert(sizeof args == sizeof kArguments);
    std::memcpy(&args, kArguments, sizeof args);
    args.partials = partials.data();
    tensors.grad_dst = grad_dst.data();
    tensors.saved = saved.data();
    tensors.grad_preactivation = grad_preactivation.data();
    for (int i = 0; i < kOperands; ++i) {
        tensors.operands[i] = operands[static_cast<size_t>(i)].data();
        tensors.grad_operands[i] = grad_operands[static_cast<size_t>(i)].data();
    }
    epilogue_bwd_case::launch(kThreads, [] { KERNEL_ENTRY(args, tensors); });
    for (int i = 0; i < kOperands; ++i) {
        if (kOperandSum[i] < 0) continue;
        sums_args = {args.partials + kOperandSum[i] * args.slots * args.places, tensors.grad_operands[i], args.channels,
                     args.slots * (args.places / args.channels)};
        epilogue_bwd_case::launch(kThreads, [] { sums::SUMS_ENTRY(sums_args); });
    }

    if (kSumsBias) {
        sums_args = {args.partials + (kSums - 1) * args.slots * args.places, grad_bias.data(), args.channels,
                     args.slots * (args.places / args.channels)};
        epilogue_bwd_case::launch(kThreads, [] { sums::SUMS_ENTRY(sums_args); });
    }

    int wrong = epilogue_bwd_case::wrong(grad_preactivation, file.next(), kTolerance, "grad_preactivation");
    for (const auto& grad_operand : grad_operands)
        wrong += epilogue_bwd_case::wrong(grad_operand, file.next(), kTolerance, "grad_operand");
    if (kSumsBias) wrong += epilogue_bwd_case::wrong(grad_bias, file.next(), kTolerance, "grad_bias");
    for (size_t i = kPartials; i < partials.size(); ++i) wrong += partials[i] == check::kPoison ? 0 : 1;
    return wrong == 0;
}
