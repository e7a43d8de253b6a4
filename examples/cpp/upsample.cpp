// Doubles the resolution of a volume: transposed convolution, bias and ReLU in one pass.
#include <cstdlib>
#include <iostream>
#include <vector>

#include "tconv3d/tconv3d.hpp"

namespace {

void upsample() {
    const auto problem = tconv3d::Problem::parse("n1 ci16 co8 12x24x24 k2 s2");
    const auto epilogue = tconv3d::Epilogue::parse("relu");
    const tconv3d::Plan plan(problem, epilogue);
    std::cout << plan.explain() << '\n';

    // Every output voxel has one tap, so dst = max(0, 16 channels * 1 * 0.5 + bias).
    const std::vector<float> src(static_cast<size_t>(problem.src_elements()), 1.0F);
    const std::vector<float> weight(static_cast<size_t>(problem.weight_elements()), 0.5F);
    const std::vector<float> bias = {0, 1, 2, 3, -6, -7, -8, -9};
    std::vector<float> dst(static_cast<size_t>(problem.dst_elements()));

    tconv3d::Arguments arguments;
    arguments.src = src.data();
    arguments.weight = weight.data();
    arguments.bias = bias.data();
    arguments.dst = dst.data();
    tconv3d::ThreadExecutor threads;
    plan.execute(arguments, threads);

    std::cout << "dst is " << tconv3d::str(problem.dst()) << "; its first voxel, by channel:";
    for (int64_t channel = 0; channel < problem.dst_channels; ++channel) {
        std::cout << ' ' << dst[static_cast<size_t>(channel * problem.dst_voxels())];
    }
    std::cout << '\n';
}

} // namespace

int main() {
    try {
        upsample();
    } catch (const tconv3d::Error& error) {
        std::cerr << "tconv3d: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
