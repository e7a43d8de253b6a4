// Packs the weight for kernels/stream.cuh: rounded to tf32, or split in two such parts, or as it is in 16 bits.
// For each group, tile of output channels, rotation and stage, one block for each tap (h, w) of the plane, k step and
// part, in the order that tensor cores read K-major operands: cores of 8 rows × 16 bytes, two along k, then along the
// rows. A row is (slot of a ring, output channel); with kWindows there are no rotations, and rows are (entry of a ring's
// window, output channel).
//
// Constants from the host: those of stream_shape.cuh, and kUseTapH kUseTapW kPackedWords kCoTiles.
#include "storage.cuh"
#include "stream_shape.cuh"

namespace {

/// The tap along D that a slot takes while slices of this rotation pass: delta = rotation - slot, modulo the ring's
/// length and within its range. -1 where the ring has a gap.
__device__ int tap_of_slot(int ring, int slot, int rotation) {
    const int length = kRingLength[ring];
    const int below = (kRingDelta[ring] + slot - rotation) % length;
    const int delta = kRingDelta[ring] - (below < 0 ? below + length : below);
    const int reach = ring + kPaddingD - delta * kStrideD;
    return reach % kDilationD == 0 && reach / kDilationD < kKernelD ? reach / kDilationD : -1;
}

/// The tap along D of a row; an entry of a window is what its slot takes at rotation 0.
__device__ int tap_of_row(int row, int rotation) {
    const int* starts = kWindows ? kRingEntry : kRingStart;
    const int place = row / kCoTile;
    int ring = 0;
    while (ring + 1 < kDPhases && place >= starts[ring + 1]) ++ring;
    return tap_of_slot(ring, place - starts[ring], rotation);
}

/// The output channel of a row: where a lane stores neighbours, its columns of some blocks of 8 are those.
__device__ int channel_of_row(int row) {
    const int in_blocks = row % (4 * kLaneChannels);
    return row - in_blocks + in_blocks % 8 / 2 * kLaneChannels + in_blocks / 8 * 2 + in_blocks % 2;
}

/// Which tap (h, w), k step and part a block of a stage holds: stages are groups of taps, one after another.
struct Block {
    int use, step, part;
};

__device__ Block block_at(int index) {
    int group = 0;
    while (index >= kSteps * kParts * kGroupUse[group + 1]) ++group;
    const int rest = index - kSteps * kParts * kGroupUse[group], uses = group_uses(group);
    return {kGroupUse[group] + rest % uses, rest / uses / kParts, rest / uses % kParts};
}

struct WeightPlace {
    int group, ci, co, tap_d, use;
};

template <typename Element>
__device__ Element weight_at(const Element* weight, const WeightPlace& place, int ci) {
    if (place.tap_d < 0 || ci >= kCi || place.co >= kCo) return Element{};
    const int64_t channels = (static_cast<int64_t>(place.group) * kCi + ci) * kCo + place.co;
    return weight[((channels * kKernelD + place.tap_d) * kKernelH + kUseTapH[place.use]) * kKernelW +
                  kUseTapW[place.use]];
}

/// Part 0 is the value in tf32, part 1 what that leaves out.
__device__ uint32_t packed_word(const float* weight, const WeightPlace& place, int part) {
    const float value = weight_at(weight, place, place.ci);
    const uint32_t high = ptx::float_to_tf32(value);
    return part == 0 ? high : ptx::float_to_tf32(value - __uint_as_float(high));
}

/// Two channels of 16 bits.
template <typename Half>
__device__ uint32_t packed_word(const Half* weight, const WeightPlace& place, int) {
    return weight_at(weight, place, place.ci).bits |
           static_cast<uint32_t>(weight_at(weight, place, place.ci + 1).bits) << 16;
}

} // namespace

extern "C" __global__ void stream_pack(const Storage* weight, uint32_t* packed) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= kPackedWords) return;
    constexpr int kBlockRows = kWindows ? kRingEntry[kDPhases] * kCoTile : kN;
    constexpr int kTurns = kWindows ? 1 : kRotations, kBlocks = kSteps * kParts * kUses;
    const int word = index % 4, row_low = index / 4 % 8, core = index / 32 % 2;
    int64_t rest = index / 64;
    const int row = rest % (kBlockRows / 8) * 8 + row_low;
    rest /= kBlockRows / 8;
    const Block block = block_at(rest % kBlocks);
    rest /= kBlocks;
    WeightPlace place;
    place.use = block.use;
    place.ci = (rest % kChunks * kSteps + block.step) * kChannelStep + (core * 4 + word) * kWordChannels;
    rest /= kChunks;
    place.tap_d = tap_of_row(row, rest % kTurns);
    rest /= kTurns;
    place.co = rest % kCoTiles * kCoTile + channel_of_row(row % kCoTile);
    place.group = rest / kCoTiles;
    packed[index] = packed_word(weight, place, block.part);
}
