// A tensor-core kernel on small integers, against the definition of a transposed convolution or of its gradient.
// prelude.hpp and kernel.hpp are what the library would compile, launch.hpp says what it would launch; all are written
// by the test.
#include "device.hpp"

#include "launch.hpp"
#include "prelude.hpp"

#include "kernel.hpp"

#include "check.hpp"

void run_pack(const void* weight, bool channels_last, void* packed, int grid_x, int grid_y, int threads);

namespace {
ptx::TensorMap the_map;
TensorCoreArguments the_args;
Output the_output;
} // namespace

int main() {
    check::Tensors tensors;
    std::vector<CoreRow, check::Guarded<CoreRow>> packed(kPackedBytes / sizeof(CoreRow));
    const check::Values weight = kChannelsLast ? check::channels_last(tensors.weight) : tensors.weight;
    emulator::set_shared_bytes(kPackSharedBytes);
    if (!kOwnWeights) run_pack(weight.data(), kChannelsLast, packed.data(), kPackGridX, kPackGridY, kPackThreads);

    std::memcpy(&the_args, kArguments, sizeof the_args);
    static_assert(sizeof the_args == sizeof kArguments);
    the_args.weights = kOwnWeights ? reinterpret_cast<const unsigned char*>(weight.data())
                                   : reinterpret_cast<const unsigned char*>(packed.data());
    the_args.weight_channels_last = kChannelsLast ? 1 : 0;
    the_args.in = reinterpret_cast<const unsigned char*>(tensors.in.data());
    the_map = {the_args.in, {}, {}, {}, {}, sizeof(Storage), kMapRounds, kMapSwizzle};
    std::copy_n(kMapExtents, 5, the_map.extents);
    std::copy_n(kMapStrides, 5, the_map.strides);
    std::copy_n(kMapBox, 5, the_map.box);
    std::copy_n(kMapSteps, 5, the_map.steps);
    check::Values preactivation = tensors.out;
    the_output.out = tensors.out.data();
    the_output.preactivation = preactivation.data();
    the_output.bias = tensors.bias.data();
    const auto results = static_cast<int64_t>(tensors.expected.size());
    const check::Values residual = check::whole_numbers<Storage>(results, 3, 4);
    if (kOperands > 0) the_output.operands[0] = residual.data();
    emulator::set_shared_bytes(kSharedBytes);
    gridDim = {kGrid, 1, 1};
    for (int block = 0; block < kGrid; ++block)
        emulator::run_cta(block, kThreads, [] { KERNEL_ENTRY(the_map, the_args, the_output); });
    const int wrong = kSavesPreactivation ? check::differences(preactivation, tensors.expected, "preactivation") : 0;
    for (size_t i = 0; i < tensors.expected.size() && kOperands > 0; ++i)
        tensors.expected[i] += to_compute(residual[i]);
    return wrong + tensors.wrong() == 0 ? 0 : 1;
}
