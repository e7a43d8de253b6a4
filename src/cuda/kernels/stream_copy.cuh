#pragma once

// How src and weights get into the stages. The copy engine brings them where addresses allow; where they lie as planes
// of a channel, or fp32 is to be split, two warps arrange them into cores.
#include "storage.cuh"
#include "stream_shape.cuh"

namespace {

// ---- Weights ----

/// Where rotations are not written out, the packed weights hold each ring's taps twice in a row but one: the window
/// that starts where the slice says gives every slot its tap.
__device__ __forceinline__ int window(int ring, int slice) {
    const int length = kRingLength[ring];
    return (length - slice % length) % length;
}

struct WeightCopy {
    const unsigned char* from;
    int to, bytes;
};

constexpr int kRowBytes = kCoTile * 32; // of a slot
constexpr int kPackedBlockBytes = kWindows ? kRingEntry[kDPhases] * kRowBytes : kBlockBytes;

/// Copies that fill a stage with the weights of a group of taps.
__device__ __forceinline__ int weight_copies(int group) {
    return kWindows ? kSteps * kParts * group_uses(group) * kDPhases : 1;
}

__device__ __forceinline__ WeightCopy weight_copy(const Walk& walk, int pass, int group, int index) {
    const int64_t tile = static_cast<int64_t>(walk.item().group) * walk.args.co_tiles + walk.item().co_tile;
    const int64_t turn = kWindows ? tile : tile * kRotations + walk.slice() % kRotations;
    const int64_t use = ((turn * kChunks + walk.chunk()) * kPasses + pass) * kUses + kGroupUse[group];
    const int64_t first = use * (kSteps * kParts);
    if constexpr (!kWindows) return {walk.args.weights + first * kPackedBlockBytes, 0, group_bytes(group)};
    const int block = index / kDPhases, ring = index % kDPhases;
    if (kRingLength[ring] == 0) return {nullptr, 0, 0};
    return {walk.args.weights + (first + block) * kPackedBlockBytes +
                (kRingEntry[ring] + window(ring, walk.slice())) * kRowBytes,
            block * kBlockBytes + kRingStart[ring] * kRowBytes, kRingLength[ring] * kRowBytes};
}

// ---- By the copy engine (sm_90a): the lanes of one warp share the copies of a stage ----

/// The first column of a staged plane.
__device__ __forceinline__ int first_column(const Item& item) {
    return item.q_w + kDeltaMinW - kLead;
}

/// TMA wants the start of a row on 16 bytes: the box of a plane begins some columns early, where tiles are aligned the
/// same number for all.
__device__ __forceinline__ int raw_shift(const Item& item) {
    const int start = kTileW % kRawAlign == 0 ? 0 : item.q_w;
    return (start + kDeltaMinW - kLead) & (kRawAlign - 1);
}

__device__ __forceinline__ int raw_column(const Item& item) {
    return first_column(item) - raw_shift(item);
}

__device__ __forceinline__ void copy_src(const Walk& walk, const ptx::TensorMap& map, uint32_t to, uint32_t barrier,
                                         int lane) {
    const Item& item = walk.item();
    const int channel = walk.chunk() * kSteps * kChannelStep, row = item.q_h + kDeltaMinH;
    const int image = item.n * kGroups + item.group;
    if constexpr (kSource == kSourcePlanes) {
        if (lane == 0) ptx::copy_box(to, map, image, channel, walk.slice(), row, raw_column(item), barrier);
    } else if constexpr (kSource == kSourceWhole) {
        if (lane == 0) ptx::copy_box(to, map, 0, image, channel, walk.slice(), 0, barrier);
    } else {
        constexpr int kCoreChannels = 4 * kWordChannels;
        for (int box = lane; box < 2 * kSteps * kImages; box += 32) {
            const int group = box % (2 * kSteps), image = box / (2 * kSteps);
            if (item.n + image >= walk.args.batch) continue;
            ptx::copy_box(to + group * kPlaneBytes + image * (kPlaneRows * kPitch * 16), map,
                          (item.n + image) * walk.args.depth + walk.slice(), row, first_column(item), item.group,
                          channel + group * kCoreChannels, barrier);
        }
    }
}

/// Bytes that copy_src brings.
__device__ __forceinline__ int src_bytes(const Walk& walk) {
    if constexpr (kHasPlanes) return kRawBoxBytes;
    return min(kImages, walk.args.batch - walk.item().n) * 2 * kSteps * (kPlaneRows * kPitch * 16);
}

/// Where the copy engine puts src: into the stages, or to where warps take it from.
__device__ __forceinline__ void produce_src(const StreamArgs& args, const ptx::TensorMap& map, const Pipeline& pipe,
                                            int lane) {
    const Buffers& to = kHasRaw ? pipe.raw : pipe.src;
    int s = 0;
    for (Walk walk(args); !walk.done(); walk.next(), ++s) {
        to.wait_freed(s);
        if (lane == 0) ptx::barrier_arrive_expect(to.filled(s), src_bytes(walk));
        __syncwarp();
        copy_src(walk, map, to.at(s), to.filled(s), lane);
    }
}

/// Calls fill(walk, pass, group, s) for each stage of weights when it is free. They are packed by the kernel before
/// this one, which may still be at it.
template <typename Fill>
__device__ __forceinline__ void for_weight_stages(const StreamArgs& args, const Pipeline& pipe, Fill fill) {
    int s = 0;
    ptx::wait_for_previous();
    for (Walk walk(args); !walk.done(); walk.next()) {
        for (int pass = walk.item().first_pass(); pass <= walk.item().last_pass(); ++pass) {
            for (int group = 0; group < kTapGroups; ++group, ++s) {
                pipe.weights.wait_freed(s);
                fill(walk, pass, group, s);
            }
        }
    }
}

__device__ __forceinline__ void produce_weights(const StreamArgs& args, const Pipeline& pipe, int lane) {
    const Buffers& to = pipe.weights;
    for_weight_stages(args, pipe, [&](const Walk& walk, int pass, int group, int s) {
        if (lane == 0) ptx::barrier_arrive_expect(to.filled(s), group_bytes(group));
        __syncwarp();
        for (int i = lane; i < weight_copies(group); i += 32) {
            const WeightCopy copy = weight_copy(walk, pass, group, i);
            if (copy.bytes > 0) ptx::copy_bulk(to.at(s) + copy.to, copy.from, copy.bytes, to.filled(s));
        }
    });
}

/// Weights with cp.async: every lane's copies arrive at the barrier when they are done.
__device__ __forceinline__ void load_weights(const StreamArgs& args, const Pipeline& pipe, int lane) {
    const Buffers& to = pipe.weights;
    for_weight_stages(args, pipe, [&](const Walk& walk, int pass, int group, int s) {
        for (int i = 0; i < weight_copies(group); ++i) {
            const WeightCopy copy = weight_copy(walk, pass, group, i);
            for (int byte = lane * 16; byte < copy.bytes; byte += 512)
                ptx::copy_async(to.at(s) + copy.to + byte, copy.from + byte);
        }
        ptx::copy_async_arrive(to.filled(s));
    });
}

// ---- By warps ----

constexpr int kRawPlane = kSource == kSourceWhole ? kWholeH * kWholeW : kPlaneRows * kRawPitch;
constexpr int kRawChannelBytes = kRawPlane * (4 / kWordChannels);

/// Where channel 0 of a group lies at a voxel, in planes as the copy engine brings them. Planes that come whole have no
/// halo.
struct RawPlace {
    uint32_t address;
    bool exists;
    /// Loads a word of channel c.
    __device__ __forceinline__ uint32_t load(int c) const {
        return kSource == kSourcePlanes || exists ? ptx::load_shared(address + c * kRawChannelBytes) : 0;
    }
};

__device__ __forceinline__ RawPlace raw_place(uint32_t raw, const Voxel& voxel, int group, int shift) {
    const int first = (voxel.image * kSteps * kChannelStep + group * 4 * kWordChannels) * kRawPlane;
    int place = voxel.row * kRawPitch + voxel.column + shift;
    bool exists = true;
    if constexpr (kSource == kSourceWhole) {
        const int h = voxel.row + kDeltaMinH, w = voxel.column + kDeltaMinW - kLead;
        exists = h >= 0 && h < kWholeH && w >= 0 && w < kWholeW;
        place = h * kWholeW + w;
    }
    return {raw + (first + place) * (4 / kWordChannels), exists};
}

/// One position in fp32.
__device__ __forceinline__ Core core_from_plane(const RawPlace& from) {
    Core core;
#pragma unroll
    for (int i = 0; i < 4; ++i) core.words[i] = from.load(i);
    return core;
}

/// Two neighbouring positions in 16 bits, of which `first` comes first: a word of a plane has both, a word of a core
/// has two channels.
__device__ __forceinline__ void cores_from_plane(Core (&cores)[2], const RawPlace& from, int first) {
    const uint32_t halves[2] = {first == 0 ? 0x5410u : 0x7632u, first == 0 ? 0x7632u : 0x5410u};
    uint32_t channels[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) channels[c] = from.load(c);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        cores[0].words[i] = __byte_perm(channels[2 * i], channels[2 * i + 1], halves[0]);
        cores[1].words[i] = __byte_perm(channels[2 * i], channels[2 * i + 1], halves[1]);
    }
}

/// The elements of one core row, as words.
template <typename Load>
__device__ __forceinline__ Core gather_core(Load load_channel) {
    Core core;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (kWordChannels == 1) {
            core.words[i] = load_channel(i);
        } else {
            core.words[i] = load_channel(2 * i) | load_channel(2 * i + 1) << 16;
        }
    }
    return core;
}

/// src as it lies, one element at a time: rows that the copy engine cannot take.
__device__ __forceinline__ Core core_from_src(const Walk& walk, const Voxel& voxel, int group) {
    using Element = typename Unsigned<4 / kWordChannels>::Type;
    const StreamArgs& args = walk.args;
    const int n = walk.item().n + voxel.image;
    const int h = walk.item().q_h + kDeltaMinH + voxel.row, w = first_column(walk.item()) + voxel.column;
    const int channel = walk.chunk() * kSteps * kChannelStep + group * 4 * kWordChannels;
    const bool inside = voxel.image < kImages && n < args.batch && h >= 0 && h < args.src_h && w >= 0 && w < args.src_w;
    const int64_t area = static_cast<int64_t>(args.src_h) * args.src_w, volume = area * args.depth;
    const int64_t place = walk.slice() * area + static_cast<int64_t>(h) * args.src_w + w;
    constexpr int kChannels = kGroups * kCi;
    const int64_t first =
        kChannelsLast ? (n * volume + place) * kChannels + walk.item().group * kCi + channel
                      : (static_cast<int64_t>(n) * kChannels + walk.item().group * kCi + channel) * volume + place;
    const int64_t stride = kChannelsLast ? 1 : volume;
    const Element* src = reinterpret_cast<const Element*>(args.src) + first;
    return gather_core([&](int c) -> uint32_t {
        return inside && channel + c < kCi ? static_cast<uint32_t>(__ldg(src + c * stride)) : 0u;
    });
}

/// Stores one core row: rounded to tf32, or its two parts where fp32 is split, or as it is.
__device__ __forceinline__ void put_core(uint32_t to, const Core& core) {
    if constexpr (kParts == 2) {
        Core high, low;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float value = __uint_as_float(core.words[i]);
            high.words[i] = ptx::float_to_tf32(value);
            low.words[i] = ptx::float_to_tf32(value - __uint_as_float(high.words[i]));
        }
        ptx::store_shared(to, high.words);
        ptx::store_shared(to + kPartBytes, low.words);
    } else if constexpr (kWordChannels == 1 && kSource == kSourceGlobal) {
        Core rounded;
#pragma unroll
        for (int i = 0; i < 4; ++i) rounded.words[i] = ptx::float_to_tf32(__uint_as_float(core.words[i]));
        ptx::store_shared(to, rounded.words);
    } else {
        ptx::store_shared(to, core.words);
    }
}

constexpr int kLoaded = kImages * kPlaneRows * kPitch; // positions

/// Fills the cores of a stage from planes of 16-bit elements, two positions at a time: kLead and an even pitch see to
/// it that they are one word of a plane. Every other four lanes begin with the second one: together they store to all
/// banks.
__device__ __forceinline__ void arrange_halves(const Walk& walk, uint32_t to, uint32_t raw, int thread) {
    const int shift = raw_shift(walk.item()), first = thread / 4 % 2;
#pragma unroll 1
    for (int position = 2 * thread; position < kLoaded; position += 2 * kArrangingWarps * 32) {
        const Voxel voxel = voxel_at(position);
#pragma unroll 1
        for (int group = 0; group < 2 * kSteps; group += 2) {
            Core cores[2][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) cores_from_plane(cores[i], raw_place(raw, voxel, group + i, shift), first);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                put_core(to + (group + i / 2) * kPlaneBytes + (position + (first ^ i % 2)) * 16, cores[i / 2][i % 2]);
        }
    }
}

/// The same from fp32. A lane takes a position of two or four groups, all loads before the first store.
__device__ __forceinline__ void arrange_cores(const Walk& walk, uint32_t to, uint32_t raw, int thread) {
    constexpr int kAtOnce = kSteps == 1 || kParts == 2 ? 2 : 4;
    const int shift = raw_shift(walk.item());
#pragma unroll 1
    for (int position = thread; position < kLoaded; position += kArrangingWarps * 32) {
        const Voxel voxel = voxel_at(position);
#pragma unroll 1
        for (int group = 0; group < 2 * kSteps; group += kAtOnce) {
            const int place = group * kPlaneBytes + position * 16;
            Core cores[kAtOnce];
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                if constexpr (kHasPlanes) {
                    cores[i] = core_from_plane(raw_place(raw, voxel, group + i, shift));
                } else {
                    ptx::load_shared(cores[i].words, raw + place + i * kPlaneBytes);
                }
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) put_core(to + place + i * kPlaneBytes, cores[i]);
        }
    }
}

/// The same from src as it lies: small planes have fewer positions than there are lanes, but several groups.
__device__ __forceinline__ void arrange_src(const Walk& walk, uint32_t to, int thread) {
#pragma unroll 1
    for (int i = thread; i < kLoaded * 2 * kSteps; i += kArrangingWarps * 32) {
        const int position = i % kLoaded, group = i / kLoaded;
        put_core(to + group * kPlaneBytes + position * 16, core_from_src(walk, voxel_at(position), group));
    }
}

__device__ __forceinline__ void arrange(const StreamArgs& args, const Pipeline& pipe, int thread) {
    int s = 0;
    for (Walk walk(args); !walk.done(); walk.next(), ++s) {
        if constexpr (kHasRaw) pipe.raw.wait_filled(s);
        pipe.src.wait_freed(s);
        const uint32_t to = pipe.src.at(s), raw = kHasRaw ? pipe.raw.at(s) : 0;
        if constexpr (kSource == kSourceGlobal) {
            arrange_src(walk, to, thread);
        } else if constexpr (kHasPlanes && kWordChannels == 2) {
            arrange_halves(walk, to, raw, thread);
        } else {
            arrange_cores(walk, to, raw, thread);
        }
        if constexpr (kWgmma) ptx::fence_shared_async();
        __syncwarp();
        if (thread % 32 == 0) {
            ptx::barrier_arrive(pipe.src.filled(s));
            if constexpr (kHasRaw) ptx::barrier_arrive(pipe.raw.freed(s));
        }
    }
}

} // namespace
