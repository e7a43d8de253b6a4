// The streamed kernel on small integers, against the definition of a transposed convolution. prelude.hpp is what the
// library would compile before the kernel, problem.hpp says what it would launch; both are written by the test.
#include <vector>

#include "device.hpp"

#include "prelude.hpp"
#include "problem.hpp"

#include "stream.cuh"

void run_pack(const void* weight, bool channels_last, void* packed, int grid_x, int grid_y, int threads);

namespace {

ptx::TensorMap the_map;
StreamArgs the_args;
Output the_output;

constexpr int kSrcChannels = kGroups * kCi;
constexpr float kPoison = -777;

/// Whole numbers whose sums are exact in every type.
std::vector<Storage> integers(int64_t count, int64_t range, uint32_t seed) {
    std::vector<Storage> values(static_cast<size_t>(count));
    for (Storage& value : values) {
        seed = seed * 1664525 + 1013904223;
        to_storage(static_cast<float>(static_cast<int64_t>(seed >> 16) % (2 * range + 1) - range), value);
    }
    return values;
}

int64_t src_index(int n, int c, int64_t voxel) {
    const int64_t voxels = int64_t{1} * kSrcD * kSrcH * kSrcW;
    return kChannelsLast ? (n * voxels + voxel) * kSrcChannels + c
                         : (int64_t{1} * n * kSrcChannels + c) * voxels + voxel;
}

int64_t dst_index(int n, int c, int64_t voxel) {
    const int64_t voxels = int64_t{1} * kDstD * kDstH * kDstW;
    return kChannelsLast ? (n * voxels + voxel) * kChannels + c : (int64_t{1} * n * kChannels + c) * voxels + voxel;
}

/// The weight with its channels last.
std::vector<Storage> channels_last(const std::vector<Storage>& weight) {
    constexpr size_t kTaps = kKernelD * kKernelH * kKernelW, kInput = kCo * kTaps;
    std::vector<Storage> turned(weight.size());
    for (size_t i = 0; i < weight.size(); ++i)
        turned[i / kInput * kInput + i % kTaps * kCo + i / kTaps % kCo] = weight[i];
    return turned;
}

/// Adds what one source voxel and channel contributes.
void scatter(std::vector<float>& dst, const std::vector<Storage>& weight, int n, int c, int d, int h, int w,
             float value) {
    const int group = c / kCi;
    for (int co = 0; co < kCo; ++co)
        for (int tap = 0; tap < kKernelD * kKernelH * kKernelW; ++tap) {
            const int od = d * kStrideD - kPaddingD + tap / (kKernelH * kKernelW) * kDilationD;
            const int oh = h * kStrideH - kPaddingH + tap / kKernelW % kKernelH * kDilationH;
            const int ow = w * kStrideW - kPaddingW + tap % kKernelW * kDilationW;
            if (od < 0 || oh < 0 || ow < 0 || od >= kDstD || oh >= kDstH || ow >= kDstW) continue;
            const size_t at =
                static_cast<size_t>(dst_index(n, group * kCo + co, (int64_t{1} * od * kDstH + oh) * kDstW + ow));
            dst[at] +=
                value *
                to_compute(
                    weight[static_cast<size_t>((int64_t{1} * c * kCo + co) * kKernelD * kKernelH * kKernelW + tap)]);
        }
}

std::vector<float> reference(const std::vector<Storage>& src, const std::vector<Storage>& weight,
                             const std::vector<Storage>& bias) {
    const int64_t voxels = int64_t{1} * kDstD * kDstH * kDstW;
    std::vector<float> dst(static_cast<size_t>(kBatch * kChannels * voxels));
    for (int n = 0; n < kBatch; ++n) {
        for (int c = 0; c < kChannels; ++c)
            for (int64_t voxel = 0; voxel < voxels; ++voxel)
                dst[static_cast<size_t>(dst_index(n, c, voxel))] = to_compute(bias[static_cast<size_t>(c)]);
        for (int c = 0; c < kSrcChannels; ++c)
            for (int voxel = 0; voxel < kSrcD * kSrcH * kSrcW; ++voxel)
                scatter(dst, weight, n, c, voxel / (kSrcH * kSrcW), voxel / kSrcW % kSrcH, voxel % kSrcW,
                        to_compute(src[static_cast<size_t>(src_index(n, c, voxel))]));
    }
    return dst;
}

/// Outputs that differ from the reference, and elements behind the last one that were written.
int compare(const std::vector<Storage>& dst, const std::vector<float>& expected) {
    int wrong = 0;
    for (size_t i = 0; i < dst.size(); ++i) {
        Storage stored;
        to_storage(i < expected.size() ? expected[i] : kPoison, stored);
        if (to_compute(dst[i]) == to_compute(stored)) continue;
        if (wrong++ < 5)
            std::printf("element %zu is %g, not %g\n", i, static_cast<double>(to_compute(dst[i])),
                        static_cast<double>(to_compute(stored)));
    }
    return wrong;
}

} // namespace

int main() {
    const std::vector<Storage> src = integers(int64_t{1} * kBatch * kSrcChannels * kSrcD * kSrcH * kSrcW, 2, 1);
    const std::vector<Storage> weight =
        integers(int64_t{1} * kSrcChannels * kCo * kKernelD * kKernelH * kKernelW, 1, 2);
    const std::vector<Storage> bias = integers(kChannels, 3, 3);
    const std::vector<float> expected = reference(src, weight, bias);

    std::vector<Storage> dst(expected.size() + 64);
    for (Storage& element : dst) to_storage(kPoison, element);
    std::vector<Core> packed(kPackedBytes / sizeof(Core));
    const std::vector<Storage> given = kChannelsLast ? channels_last(weight) : weight;
    if (!kOwnWeights) run_pack(given.data(), kChannelsLast, packed.data(), kPackGridX, kPackGridY, kPackThreads);

    std::memcpy(&the_args, kArguments, sizeof the_args);
    static_assert(sizeof the_args == sizeof kArguments);
    the_args.weights = kOwnWeights ? reinterpret_cast<const unsigned char*>(given.data())
                                   : reinterpret_cast<const unsigned char*>(packed.data());
    the_args.weight_channels_last = kChannelsLast ? 1 : 0;
    the_args.src = reinterpret_cast<const unsigned char*>(src.data());
    the_map = {the_args.src, {}, {}, {}, sizeof(Storage), kMapRounds};
    std::copy_n(kMapExtents, 5, the_map.extents);
    std::copy_n(kMapStrides, 5, the_map.strides);
    std::copy_n(kMapBox, 5, the_map.box);
    the_output.dst = dst.data();
    the_output.bias = bias.data();
    gridDim = {kGrid, 1, 1};
    for (int block = 0; block < kGrid; ++block)
        emulator::run_cta(block, kThreads, [] { stream_fwd(the_map, the_args, the_output); });
    return compare(dst, expected) == 0 ? 0 : 1;
}
