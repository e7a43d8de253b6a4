// Inside the namespace of one problem, behind its three kernels in namespaces of their own. The test writes kGiven, the
// kernels' arguments and what the library would launch: kItems, kSplits, kWeightSums, kBiasCtas, kWithBias, kLongSrc.
using products::kParts;
using products::Storage;

ReductionArguments products_args;
ReductionBiasArguments bias_args;
ReductionSplitsArguments splits_args;

/// Gives one factor of each product more bits than tf32 has.
void lengthen(check::GuardedValues<Storage>& values) {
    constexpr float kLong = (1 << 12) + 1;
    for (Storage& value : values) to_storage(to_compute(value) * kLong, value);
}

template <typename Args, size_t kBytes>
Args from_bytes(const unsigned char (&bytes)[kBytes]) {
    static_assert(sizeof(Args) == kBytes);
    Args args;
    std::memcpy(&args, bytes, kBytes);
    return args;
}

void launch(int64_t ctas, void (*thread)()) {
    gridDim = {static_cast<int>(ctas), 1, 1};
    for (int block = 0; block < ctas; ++block) emulator::run_cta(block, products::kThreads, thread);
}

bool is_exact() {
    direct::Tensors<Storage> tensors(kGiven);
    if (kParts == 2) lengthen(kLongSrc ? tensors.src : tensors.grad_dst);
    const std::vector<double> exact_weight = direct::exact_grad_weight(kGiven, tensors);
    const std::vector<double> exact_bias = direct::exact_grad_bias(kGiven, tensors);
    check::GuardedValues<Storage> grad_weight = check::poisoned<Storage>(exact_weight.size());
    check::GuardedValues<Storage> grad_bias = check::poisoned<Storage>(exact_bias.size());
    products_args = from_bytes<ReductionArguments>(kProductsArguments);
    bias_args = from_bytes<ReductionBiasArguments>(kBiasArguments);
    // What is not written shows: not a number.
    check::GuardedValues<float> sums(kWeightSums * kSplits + exact_bias.size() * bias_args.parts, NAN);
    products_args.src = tensors.src.data();
    products_args.grad_dst = tensors.grad_dst.data();
    products_args.sums = kWeightSums > 0 ? static_cast<void*>(sums.data()) : grad_weight.data();
    launch(kItems, [] { PRODUCTS(products_args); });
    bias_args.grad_dst = tensors.grad_dst.data();
    bias_args.sums = sums.data() + kWeightSums * kSplits;
    if (kWithBias) launch(kBiasCtas, [] { BIAS(bias_args); });
    splits_args.weight = {sums.data(), grad_weight.data(), kWeightSums, kSplits};
    splits_args.bias = {bias_args.sums, grad_bias.data(), kWithBias ? int64_t(exact_bias.size()) : 0, bias_args.parts};
    launch(2, [] { SPLITS(splits_args); });
    const std::vector<double> expected_bias = kWithBias ? exact_bias : std::vector<double>();
    return check::differences(grad_weight, exact_weight, "grad_weight") == 0 &&
           check::differences(grad_bias, expected_bias, "grad_bias") == 0;
}
