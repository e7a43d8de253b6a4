// Packs the weight for kernels/stream.cuh, rounded to tf32. For each group, tile of output channels, rotation and chunk
// of input channels, one block for each use of a tap (h, w), in the order that wgmma reads K-major operands without
// swizzle: cores of 8 rows × 16 bytes, two along k, then along the rows. A row is (slot of a ring, output channel).
//
// Constants from the host: those of stream.cuh, and kKernelD kKernelH kKernelW kDilationD kUseTapH kUseTapW kPacked.
#include "ptx.cuh"

namespace {

/// The tap along D that adds to a slot while slices of this rotation pass: delta = rotation - slot, modulo the ring's
/// length and within its range. -1 where the ring has a gap.
__device__ int tap_of_slot(int slot, int rotation) {
    int r = 0;
    while (r + 1 < kDPhases && slot >= kRingStart[r + 1]) ++r;
    while (kRingLength[r] == 0) --r;
    const int length = kRingLength[r];
    const int below = (rotation - (slot - kRingStart[r]) - kRingDelta[r]) % length;
    const int delta = kRingDelta[r] + (below > 0 ? below - length : below);
    const int reach = r - delta * kStrideD;
    return reach % kDilationD == 0 && reach / kDilationD < kKernelD ? reach / kDilationD : -1;
}

} // namespace

extern "C" __global__ void stream_pack(const float* weight, float* packed) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= kPacked) return;
    int64_t rest = index;
    const int c_low = rest % 4, row_low = rest / 4 % 8, c_high = rest / 32 % 2;
    rest /= 64;
    const int row = rest % (kN / 8) * 8 + row_low;
    rest /= kN / 8;
    const int use = rest % kUses;
    rest /= kUses;
    const int ci = rest % kChunks * 8 + c_high * 4 + c_low;
    rest /= kChunks;
    const int rotation = rest % kRotations;
    rest /= kRotations;
    const int co = rest % kCoTiles * kCoTile + row % kCoTile;
    const int group = rest / kCoTiles;
    const int tap_d = tap_of_slot(row / kCoTile, rotation);
    float value = 0.f;
    if (tap_d >= 0 && ci < kCi && co < kCo) {
        const int64_t channels = (static_cast<int64_t>(group) * kCi + ci) * kCo + co;
        value = weight[((channels * kKernelD + tap_d) * kKernelH + kUseTapH[use]) * kKernelW + kUseTapW[use]];
    }
    packed[index] = __uint_as_float(ptx::float_to_tf32(value));
}
