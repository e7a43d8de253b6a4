// Inside the namespace of one problem, behind its three kernels in namespaces of their own. The test writes kGiven, the
// kernels' arguments, place() for the tensors of the products, and what the library would launch: kSharedBytes, kItems,
// kBiasCtas, kWithBias, kParts, kLongSrc.
using products::Storage;

Arguments products_args;
ReductionBiasArguments bias_args;
AddSplitsArguments add_args;

/// Gives one factor of each product more bits than tf32 has.
void lengthen(check::GuardedValues<Storage>& values) {
    constexpr float kLong = (1 << 12) + 1;
    for (Storage& value : values) to_storage(to_compute(value) * kLong, value);
}

void launch(int64_t ctas, int threads, void (*thread)()) {
    gridDim = {static_cast<int>(ctas), 1, 1};
    for (int block = 0; block < ctas; ++block) emulator::run_cta(block, threads, thread);
}

bool is_exact() {
    direct::Tensors<Storage> tensors(kGiven);
    if (kParts == 2) lengthen(kLongSrc ? tensors.src : tensors.grad_dst);
    const std::vector<double> exact_weight = direct::exact_grad_weight(kGiven, tensors);
    const std::vector<double> exact_bias = direct::exact_grad_bias(kGiven, tensors);
    check::GuardedValues<Storage> grad_weight = check::poisoned<Storage>(exact_weight.size());
    check::GuardedValues<Storage> grad_bias = check::poisoned<Storage>(exact_bias.size());
    products_args = direct::from_bytes<Arguments>(kProductsArguments);
    bias_args = direct::from_bytes<ReductionBiasArguments>(kBiasArguments);
    add_args = direct::from_bytes<AddSplitsArguments>(kAddArguments);
    const int64_t weight_sums = add_args.weight.count() * add_args.weight.splits;
    // What is not written shows: not a number.
    check::GuardedValues<float> sums(weight_sums + exact_bias.size() * bias_args.parts, NAN);
    place(products_args, tensors.src.data(), tensors.grad_dst.data());
    products_args.sums = weight_sums > 0 ? static_cast<void*>(sums.data()) : grad_weight.data();
    emulator::set_shared_bytes(kSharedBytes);
    launch(kItems, products::kThreads, [] { PRODUCTS(products_args); });
    bias_args.grad_dst = tensors.grad_dst.data();
    bias_args.sums = sums.data() + weight_sums;
    if (kWithBias) launch(kBiasCtas, bias::kThreads, [] { BIAS(bias_args); });
    direct::place_sums(add_args.weight, sums.data(), grad_weight.data());
    direct::place_sums(add_args.bias, bias_args.sums, kWithBias ? grad_bias.data() : nullptr);
    launch(2, add::kThreads, [] { ADD_SPLITS(add_args); });
    const std::vector<double> expected_bias = kWithBias ? exact_bias : std::vector<double>();
    return check::differences(grad_weight, exact_weight, "grad_weight") == 0 &&
           check::differences(grad_bias, expected_bias, "grad_bias") == 0;
}
