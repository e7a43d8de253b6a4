// Inside the namespace of one problem, behind its kernel and the one that packs weights, in namespaces of their own.
// The test writes kGiven and what the library would launch.
using products::Storage;

ptx::TensorMap map;
tconv3d::cuda::tensorcore::TensorCoreArguments args;
products::Output output;
check::GuardedValues<Storage> weight;
std::vector<products::CoreRow, check::Guarded<products::CoreRow>> packed;

/// All CTAs one after another.
void pack() {
    emulator::set_shared_bytes(kPackSharedBytes);
    gridDim = {kPackGridX, kPackGridY, 1};
    for (int y = 0; y < kPackGridY; ++y)
        for (int x = 0; x < kPackGridX; ++x) {
            blockIdx.y = y;
            emulator::run_cta(x, kPackThreads, [] {
                PACK(weight.data(), products::kChannelsLast, reinterpret_cast<uint32_t*>(packed.data()));
            });
        }
}

void set_map(const void* in) {
    map = {static_cast<const unsigned char*>(in), {}, {}, {}, {}, sizeof(Storage), kMapRounds, kMapSwizzle};
    std::copy_n(kMapExtents, 5, map.extents);
    std::copy_n(kMapStrides, 5, map.strides);
    std::copy_n(kMapBox, 5, map.box);
    std::copy_n(kMapSteps, 5, map.steps);
}

bool is_exact() {
    check::Tensors<Storage> tensors(kGiven, kBwdData, kLong);
    weight = products::kChannelsLast ? tensors.weight_channels_last() : tensors.weight;
    packed.resize(kPackedBytes / sizeof(products::CoreRow));
    if (!products::kOwnWeights) pack();

    std::memcpy(&args, kArguments, sizeof args);
    static_assert(sizeof args == sizeof kArguments);
    args.weights = products::kOwnWeights ? reinterpret_cast<const unsigned char*>(weight.data())
                                         : reinterpret_cast<const unsigned char*>(packed.data());
    args.weight_channels_last = products::kChannelsLast;
    args.in = reinterpret_cast<const unsigned char*>(tensors.in.data());
    set_map(tensors.in.data());
    check::GuardedValues<Storage> preactivation = tensors.out;
    output.out = tensors.out.data();
    output.preactivation = preactivation.data();
    output.bias = tensors.bias.data();
    const auto results = static_cast<int64_t>(tensors.expected.size());
    const check::GuardedValues<Storage> residual = check::whole_numbers<Storage>(results, 3, 4);
    if (products::kOperands > 0) output.operands[0] = residual.data();
    emulator::set_shared_bytes(kSharedBytes);
    emulator::set_previous(packed.data(), kPackedBytes);
    gridDim = {kGrid, 1, 1};
    blockIdx.y = 0;
    for (int block = 0; block < kGrid; ++block)
        emulator::run_cta(block, products::kThreads, [] { PRODUCTS(map, args, output); });

    int wrong = 0;
    if (products::kSavesPreactivation) wrong += check::differences(preactivation, tensors.expected, "preactivation");
    for (size_t i = 0; i < tensors.expected.size() && products::kOperands > 0; ++i)
        tensors.expected[i] += to_compute(residual[i]);
    return wrong + tensors.wrong() == 0;
}
