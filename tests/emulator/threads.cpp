// A kernel whose threads work by themselves, for the problem of problem.hpp. launch.hpp says which:
// KERNEL_FILE, KERNEL_ENTRY, and KERNEL_ARGUMENTS, the type of what it takes beside Output.
#include "device.hpp"

#undef __shared__
#define __shared__ static // of a CTA at a time

#include "launch.hpp"
#include "prelude.hpp"

#include KERNEL_FILE

#include "check.hpp"
#include "problem.hpp"

namespace {
KERNEL_ARGUMENTS the_args;
Output the_output;
} // namespace

int main() {
    check::Tensors<Storage> tensors(kGiven, kBwdData, kLong);
    std::memcpy(&the_args, kArguments, sizeof the_args);
    static_assert(sizeof the_args == sizeof kArguments);
    the_args.in = tensors.in.data();
    the_args.weight = tensors.weight.data();
    the_output.out = tensors.out.data();
    the_output.bias = tensors.bias.data();
    gridDim = {kGrid, 1, 1};
    for (int block = 0; block < kGrid; ++block)
        emulator::run_cta(block, kThreads, [] { KERNEL_ENTRY(the_args, the_output); });
    return tensors.wrong() == 0 ? 0 : 1;
}
