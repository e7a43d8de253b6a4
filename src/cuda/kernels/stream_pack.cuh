// Packs the weight for kernels/stream.cuh: rounded to tf32, or split in two such parts, or as it is in 16 bits.
// For each group, tile of output channels, rotation and stage, one block for each tap (h, w) of the plane, k step and
// part, in the order that tensor cores read K-major operands: cores of 8 rows × 16 bytes, two along k, then along the
// rows. A row is (slot of a ring, output channel); with kWindows there are no rotations, and rows are (entry of a ring's
// window, output channel).
//
// A CTA packs what follows from one k step of input channels and one tile of output channels, all taps and rotations of
// it: so the weight's sectors, which hold neighbouring taps, are read by one multiprocessor.
//
// Constants from the host: those of stream_shape.cuh, and kUseTapH kUseTapW kCoTiles.
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

/// The place of a block among those of a stage: stages are groups of taps, one after another.
__device__ int block_index(int use, int step, int part) {
    int group = 0;
    while (use >= kGroupUse[group + 1]) ++group;
    return kSteps * kParts * kGroupUse[group] + (step * kParts + part) * group_uses(group) + use - kGroupUse[group];
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
    constexpr int kBlockRows = kWindows ? kRingEntry[kDPhases] * kCoTile : kN;
    constexpr int kTurns = kWindows ? 1 : kRotations, kAllSteps = kChunks * kSteps;
    constexpr int kCores = kTurns * kParts * kUses * kBlockRows * 2; // rows of cores, 16 bytes each
    ptx::let_next_start();
    const int tile = blockIdx.x / kAllSteps, all_step = blockIdx.x % kAllSteps;
    for (int index = blockIdx.y * blockDim.x + threadIdx.x; index < kCores; index += gridDim.y * blockDim.x) {
        const int row_low = index % 8, core = index / 8 % 2, high = index / 16 % (kBlockRows / 8);
        const int rest = index / (2 * kBlockRows);
        const int use = rest % kUses, part = rest / kUses % kParts, turn = rest / (kUses * kParts);
        const int row = high * 8 + row_low;
        WeightPlace place;
        place.use = use;
        place.tap_d = tap_of_row(row, turn);
        place.co = tile % kCoTiles * kCoTile + channel_of_row(row % kCoTile);
        place.group = tile / kCoTiles;
        Core words;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            place.ci = all_step * kChannelStep + (core * 4 + i) * kWordChannels;
            words.words[i] = packed_word(weight, place, part);
        }
        const int64_t stage = (static_cast<int64_t>(tile) * kTurns + turn) * kChunks + all_step / kSteps;
        const int64_t block = stage * (kSteps * kParts * kUses) + block_index(use, all_step % kSteps, part);
        reinterpret_cast<Core*>(packed)[block * (2 * kBlockRows) + high * 16 + core * 8 + row_low] = words;
    }
}
