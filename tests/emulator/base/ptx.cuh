#pragma once

// kernels/ptx.cuh for the host: the same functions.
#include <array>

#include "device.hpp"

namespace ptx {

// ---- Conversions ----

inline float bf16_to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline uint16_t float_to_bf16(float value) {
    const uint32_t bits = bits_of(value);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline float f16_to_float(uint16_t bits) {
    _Float16 value;
    std::memcpy(&value, &bits, sizeof bits);
    return static_cast<float>(value);
}
inline uint16_t float_to_f16(float value) {
    const auto half = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
}
inline uint32_t floats_to_bf16(float first, float second) {
    return float_to_bf16(first) | static_cast<uint32_t>(float_to_bf16(second)) << 16;
}
inline uint32_t floats_to_f16(float first, float second) {
    return float_to_f16(first) | static_cast<uint32_t>(float_to_f16(second)) << 16;
}
inline uint32_t float_to_tf32(float value) {
    return (bits_of(value) + 0x1000) & ~0x1FFFu;
}

inline void clear(float& value) {
    value = 0;
}

// ---- Shared memory by address ----

inline uint32_t shared_address(const void*) {
    return 0;
}
template <typename Value>
void load_shared(Value& value, uint32_t shared_src) {
    emulator::load(&value, shared_src, sizeof value);
}
inline uint32_t load_shared(uint32_t shared_src) {
    uint32_t word;
    load_shared(word, shared_src);
    return word;
}
template <typename Value>
void store_shared(uint32_t shared_dst, const Value& value) {
    emulator::store(shared_dst, &value, sizeof value);
}

template <typename Value>
void store_shared_if(bool wanted, uint32_t shared_dst, const Value& value) {
    if (wanted) store_shared(shared_dst, value);
}

inline void store_shared_half_if(bool wanted, uint32_t shared_dst, uint32_t word) {
    store_shared_if(wanted, shared_dst, static_cast<uint16_t>(word));
}

template <int kOffset, typename Words>
void load_readonly_if(bool wanted, const void* src, Words& words) {
    if (!wanted) return;
    const uint64_t address = reinterpret_cast<uint64_t>(src) + kOffset;
    emulator::require(address % sizeof words == 0, "a load of %d bytes is from address %llu",
                      static_cast<int>(sizeof words), static_cast<unsigned long long>(address));
    std::memcpy(&words, reinterpret_cast<const void*>(address), sizeof words);
}

template <typename Words>
void store_if(bool wanted, void* dst, const Words& words) {
    if (!wanted) return;
    emulator::require(reinterpret_cast<uint64_t>(dst) % sizeof words == 0, "a store of %d bytes is to %p",
                      static_cast<int>(sizeof words), dst);
    std::memcpy(dst, &words, sizeof words);
}

// ---- Barriers ----

inline void barrier_init(uint32_t shared_barrier, int arrivals) {
    emulator::barrier_init(shared_barrier, arrivals);
}
inline void fence_barrier_init() {}
inline void barrier_arrive(uint32_t shared_barrier) {
    emulator::barrier_arrive(shared_barrier);
}
inline void barrier_arrive_expect(uint32_t shared_barrier, int bytes) {
    emulator::barrier_expect(shared_barrier, bytes);
    emulator::barrier_arrive(shared_barrier);
}
inline void barrier_wait(uint32_t shared_barrier, int parity) {
    emulator::barrier_wait(shared_barrier, parity);
}
template <int kCount>
void sync_threads() {
    emulator::meet(1, kCount);
}
inline void sync_warpgroup(int warpgroup) {
    emulator::meet(2 + warpgroup, 128);
}
inline void fence_shared_async() {
    emulator::fence_async();
}
inline void let_next_start() {}
inline void wait_for_previous() {}

// ---- Copies ----

inline void require_aligned(uint64_t a, uint64_t b, int64_t bytes) {
    emulator::require(a % 16 == 0 && b % 16 == 0 && bytes % 16 == 0 && bytes > 0,
                      "a copy of %lld bytes is between addresses that are not aligned", static_cast<long long>(bytes));
}
inline void copy_async_part(uint32_t shared_dst, const void* src, int bytes) {
    require_aligned(shared_dst, reinterpret_cast<uint64_t>(src), 16);
    emulator::require(bytes >= 0 && bytes <= 16, "cp.async has %d of 16 bytes", bytes);
    emulator::copy_in([=] {
        unsigned char copied[16] = {};
        std::memcpy(copied, src, static_cast<size_t>(bytes));
        emulator::copied_store(shared_dst, copied, sizeof copied);
    });
}
inline void copy_async(uint32_t shared_dst, const void* src) {
    copy_async_part(shared_dst, src, 16);
}
inline void copy_async_word(uint32_t shared_dst, const void* src, int bytes) {
    emulator::require(shared_dst % 4 == 0 && reinterpret_cast<uint64_t>(src) % 4 == 0 && bytes >= 0 && bytes <= 4,
                      "cp.async has %d of 4 bytes", bytes);
    emulator::copy_in([=] {
        unsigned char copied[4] = {};
        std::memcpy(copied, src, static_cast<size_t>(bytes));
        emulator::copied_store(shared_dst, copied, sizeof copied);
    });
}
inline void copy_async_commit() {
    emulator::close_copies_in();
}
template <int kPending>
void copy_async_wait() {
    emulator::wait_copies_in(kPending);
}
inline void copy_async_arrive(uint32_t shared_barrier) {
    emulator::later([shared_barrier, copies = emulator::take_copies_in()] {
        for (const auto& copy : copies) copy();
        emulator::barrier_arrive(shared_barrier);
    });
}

/// Extents, strides and box from the contiguous dimension on, and from an element that is copied to the next one;
/// rounds to tf32 where the elements are.
struct TensorMap {
    const unsigned char* src;
    int64_t extents[5];
    int64_t strides[5];
    int64_t box[5];
    int64_t steps[5];
    int bytes;
    bool tf32;
    int swizzle; // bytes of a row, 0 for none
};

/// What cuTensorMapEncodeTiled and the PTX manual ask for, and what was seen on an H200: the first element that a box
/// has along its contiguous dimension falls on 16 bytes.
inline void require_map(const TensorMap& map) {
    emulator::require(reinterpret_cast<uint64_t>(map.src) % 16 == 0, "TMA reads a tensor at %p", map.src);
    emulator::require(map.steps[0] == 1, "TMA takes every %d-th element of a row", static_cast<int>(map.steps[0]));
    const int64_t row = map.box[0] * map.bytes;
    emulator::require(row % 16 == 0 && (map.swizzle == 0 || row <= map.swizzle), "a row of a box has %d bytes",
                      static_cast<int>(row));
    for (int i = 0; i < 5; ++i) {
        const int64_t box = map.box[i] * map.steps[i], stride = map.strides[i] * map.bytes;
        emulator::require(map.extents[i] >= 1 && map.extents[i] <= int64_t{1} << 32, "dimension %d has extent %lld", i,
                          static_cast<long long>(map.extents[i]));
        emulator::require(box >= 1 && box <= 256 && map.steps[i] <= 8, "dimension %d has a box of %d by %d", i,
                          static_cast<int>(map.box[i]), static_cast<int>(map.steps[i]));
        emulator::require(i == 0 || (stride % 16 == 0 && stride < int64_t{1} << 40), "dimension %d has stride %lld", i,
                          static_cast<long long>(stride));
    }
}

/// Where TMA and tensor cores find what would be at an address.
inline uint32_t swizzled(uint32_t address, int row_bytes) {
    if (row_bytes == 0) return address;
    return address ^ (address >> 7 & static_cast<uint32_t>(row_bytes / 16 - 1)) << 4;
}

inline void copy_bulk(uint32_t shared_dst, const void* src, int bytes, uint32_t shared_barrier) {
    require_aligned(shared_dst, reinterpret_cast<uint64_t>(src), bytes);
    emulator::later([=] {
        emulator::async_store(shared_dst, src, static_cast<size_t>(bytes));
        emulator::barrier_expect(shared_barrier, -bytes);
    });
}
inline void copy_bulk_out(uint64_t dst, uint32_t shared_src, int bytes) {
    require_aligned(dst, shared_src, bytes);
    const auto count = static_cast<size_t>(bytes);
    emulator::async_reads(shared_src, count);
    emulator::copy_out(
        [=] { std::memcpy(reinterpret_cast<void*>(dst), emulator::async_load(shared_src, count), count); });
}
inline void copy_bulk_out_commit() {
    emulator::close_copies();
}
template <int kPending>
void copy_bulk_out_wait() {
    emulator::wait_copies(kPending);
}

/// Puts a box into shared memory, in the order of extents.
inline void read_box(uint32_t shared_dst, const TensorMap& map, const std::array<int64_t, 5>& start, int64_t total) {
    for (int64_t index = 0; index < total; ++index) {
        int64_t rest = index, place = 0;
        bool inside = true;
        for (int i = 0; i < 5; ++i) {
            const int64_t at = start[static_cast<size_t>(i)] + rest % map.box[i] * map.steps[i];
            rest /= map.box[i];
            inside = inside && at >= 0 && at < map.extents[i];
            place += at * map.strides[i];
        }
        const uint32_t address = shared_dst + static_cast<uint32_t>(index * map.bytes);
        uint32_t element = 0;
        if (inside) std::memcpy(&element, map.src + place * map.bytes, static_cast<size_t>(map.bytes));
        if (map.tf32) element = float_to_tf32(__uint_as_float(element));
        emulator::async_store(swizzled(address, map.swizzle), &element, static_cast<size_t>(map.bytes));
    }
}

inline void copy_box(uint32_t shared_dst, const TensorMap& map, int x4, int x3, int x2, int x1, int x0,
                     uint32_t shared_barrier) {
    const std::array<int64_t, 5> start = {x0, x1, x2, x3, x4};
    const int64_t total = map.box[0] * map.box[1] * map.box[2] * map.box[3] * map.box[4];
    require_map(map);
    emulator::require(shared_dst % 128 == 0, "TMA writes a box to address %u", shared_dst);
    emulator::require(start[0] * map.bytes % 16 == 0, "a box begins at element %d of a row", x0);
    emulator::later([=] {
        read_box(shared_dst, map, start, total);
        emulator::barrier_expect(shared_barrier, static_cast<int>(-total * map.bytes));
    });
}

// ---- Tensor cores ----

inline uint32_t transpose_matrix(uint32_t matrix) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const emulator::Words* const all = emulator::exchange(&matrix, 1);
    uint32_t turned = 0;
    for (int i = 0; i < 2; ++i) turned |= (all[(2 * t + i) * 4 + g / 2].words[0] >> g % 2 * 16 & 0xFFFF) << 16 * i;
    emulator::exchanged();
    return turned;
}

inline void load_matrices(uint32_t (&matrices)[4], uint32_t shared_row) {
    emulator::require(shared_row % 16 == 0, "ldmatrix reads a row at address %u", shared_row);
    const emulator::Words* const all = emulator::exchange(&shared_row, 1);
    for (int i = 0; i < 4; ++i)
        matrices[i] = load_shared(all[i * 8 + threadIdx.x % 32 / 4].words[0] + threadIdx.x % 4 * 4);
    emulator::exchanged();
}

inline void load_matrices_transposed(uint32_t (&matrices)[4], uint32_t shared_row) {
    load_matrices(matrices, shared_row);
    for (uint32_t& matrix : matrices) matrix = transpose_matrix(matrix);
}

/// The product of two words, as the elements of `Word` that they hold.
struct Tf32 {
    static constexpr uint32_t kBits = 0xFFFFE000; // tensor cores do not see the others
    static float multiply(uint32_t a, uint32_t b) { return __uint_as_float(a & kBits) * __uint_as_float(b & kBits); }
};
struct Bf16Pair {
    static float multiply(uint32_t a, uint32_t b) {
        return bf16_to_float(a & 0xFFFF) * bf16_to_float(b & 0xFFFF) + bf16_to_float(a >> 16) * bf16_to_float(b >> 16);
    }
};
struct F16Pair {
    static float multiply(uint32_t a, uint32_t b) {
        return f16_to_float(a & 0xFFFF) * f16_to_float(b & 0xFFFF) + f16_to_float(a >> 16) * f16_to_float(b >> 16);
    }
};

template <typename Word>
void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint32_t own[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const emulator::Words* const all = emulator::exchange(own, 6);
    for (int k = 0; k < 8; ++k)
        for (int i = 0; i < 4; ++i)
            c[i] += Word::multiply(all[g * 4 + k % 4].words[i / 2 + k / 4 * 2],
                                   all[(2 * t + i % 2) * 4 + k % 4].words[4 + k / 4]);
    emulator::exchanged();
}
inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma<Tf32>(c, a, b);
}
inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma<Bf16Pair>(c, a, b);
}
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma<F16Pair>(c, a, b);
}

inline void wgmma_fence() {}
inline void wgmma_commit() {
    emulator::close_products();
}
template <int kPending>
void wgmma_wait() {
    emulator::wait_products(kPending);
}

enum class Swizzle : uint64_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

inline uint64_t wgmma_descriptor(uint32_t shared_start, uint32_t leading_bytes, uint32_t stride_bytes,
                                 Swizzle swizzle) {
    const auto field = [](uint32_t bytes) {
        emulator::require(bytes % 16 == 0 && bytes < 1 << 18, "a descriptor of wgmma has a field of %u bytes", bytes);
        return static_cast<uint64_t>(bytes >> 4);
    };
    return field(shared_start) | field(leading_bytes) << 16 | field(stride_bytes) << 32 |
           static_cast<uint64_t>(swizzle) << 62;
}

/// Where the word k of 8 of a row of a K-major operand is.
inline uint32_t operand_address(uint64_t descriptor, int row, int k) {
    const auto field = [&](int shift) { return static_cast<uint32_t>(descriptor >> shift & 0x3FFF) << 4; };
    const uint32_t start = field(0) + row / 8 * field(32);
    const int mode = static_cast<int>(descriptor >> 62), row_bytes = mode == 0 ? 0 : 256 >> mode;
    if (row_bytes == 0) return start + k / 4 * field(16) + row % 8 * 16 + k % 4 * 4;
    return swizzled(start + row % 8 * row_bytes + k * 4, row_bytes);
}

inline uint32_t operand_word(uint64_t descriptor, int row, int k) {
    uint32_t word;
    std::memcpy(&word, emulator::async_load(operand_address(descriptor, row, k), sizeof word), sizeof word);
    return word;
}

inline void read_operand(uint64_t descriptor, int rows) {
    for (int row = 0; row < rows; ++row)
        for (int k = 0; k < 8; k += 4) emulator::async_reads(operand_address(descriptor, row, k), 16);
}

/// This thread's sums of an m64 product with `columns` columns, which it adds to or replaces.
template <typename Word>
void multiply_rows(float* sums, int columns, uint64_t a, uint64_t b, bool adds) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, first = threadIdx.x / 32 % 4 * 16;
    for (int index = 0; index < columns / 2; ++index) {
        const int row = first + index % 4 / 2 * 8 + g, column = index / 4 * 8 + 2 * t + index % 2;
        if (!adds) sums[index] = 0;
        for (int k = 0; k < 8; ++k) sums[index] += Word::multiply(operand_word(a, row, k), operand_word(b, column, k));
    }
}

template <typename Word>
void wgmma(float* sums, int columns, uint64_t a, uint64_t b, bool adds) {
    if (threadIdx.x % 128 == 0) {
        read_operand(a, 64);
        read_operand(b, columns);
    }
    emulator::multiply([=] { multiply_rows<Word>(sums, columns, a, b, adds); });
}

/// Where voxel `voxel` of 16 of a column is, of 16-bit elements whose columns lie side by side, without swizzle.
inline uint32_t turned_address(uint64_t descriptor, int column, int voxel) {
    const auto field = [&](int shift) { return static_cast<uint32_t>(descriptor >> shift & 0x3FFF) << 4; };
    return field(0) + column / 8 * field(32) + voxel / 8 * field(16) + voxel % 8 * 16 + column % 8 * 2;
}

inline uint32_t turned_word(uint64_t descriptor, int column, int k) {
    uint16_t halves[2];
    for (int i = 0; i < 2; ++i)
        std::memcpy(&halves[i], emulator::async_load(turned_address(descriptor, column, 2 * k + i), 2), 2);
    return halves[0] | static_cast<uint32_t>(halves[1]) << 16;
}

inline void read_turned(uint64_t descriptor, int columns) {
    for (int column = 0; column < columns; column += 8)
        for (int voxel = 0; voxel < 16; ++voxel) emulator::async_reads(turned_address(descriptor, column, voxel), 16);
}

/// The same with rows from registers: rows g and g + 8 of a warp are those of its own lanes.
template <typename Word>
void wgmma_rows(float* sums, int columns, const uint32_t (&rows)[4], uint64_t b, bool turned) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const emulator::Words* const all = emulator::exchange(rows, 4);
    std::array<std::array<uint32_t, 8>, 2> own;
    for (int row = 0; row < 2; ++row)
        for (int k = 0; k < 8; ++k) own[row][k] = all[g * 4 + k % 4].words[row + k / 4 * 2];
    emulator::exchanged();
    if (threadIdx.x % 128 == 0) turned ? read_turned(b, columns) : read_operand(b, columns);
    emulator::multiply([=] {
        for (int index = 0; index < columns / 2; ++index)
            for (int k = 0; k < 8; ++k) {
                const int column = index / 4 * 8 + 2 * t + index % 2;
                const uint32_t word = turned ? turned_word(b, column, k) : operand_word(b, column, k);
                sums[index] += Word::multiply(own[index % 4 / 2][k], word);
            }
    });
}

template <int kRegisters>
void take_registers() {
    emulator::take_registers(kRegisters);
}
template <int kRegisters>
void give_registers() {
    emulator::give_registers(kRegisters);
}

} // namespace ptx
