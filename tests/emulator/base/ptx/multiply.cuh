#pragma once

#include <array>

#include "base/ptx/convert.cuh"
#include "base/ptx/memory.cuh"
#include "base/ptx/swizzle.cuh"

namespace ptx {

inline void clear(float& value) {
    value = 0;
}

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

/// Where voxel `voxel` of 16 of a row or column is, of 16-bit elements whose rows or columns lie side by side. With
/// swizzle so many as a swizzled row holds do, and the two strides change places.
inline uint32_t turned_address(uint64_t descriptor, int column, int voxel) {
    const auto field = [&](int shift) { return static_cast<uint32_t>(descriptor >> shift & 0x3FFF) << 4; };
    const int mode = static_cast<int>(descriptor >> 62), row_bytes = mode == 0 ? 0 : 256 >> mode;
    if (row_bytes == 0)
        return field(0) + column / 8 * field(32) + voxel / 8 * field(16) + voxel % 8 * 16 + column % 8 * 2;
    const int together = row_bytes / 2;
    return swizzled(field(0) + column / together * field(16) + voxel / 8 * field(32) + voxel % 8 * row_bytes +
                        column % together * 2,
                    row_bytes);
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

/// Adds an m64 product of operands that are both turned.
template <typename Word>
void wgmma_turned(float* sums, int columns, uint64_t a, uint64_t b) {
    if (threadIdx.x % 128 == 0) {
        read_turned(a, 64);
        read_turned(b, columns);
    }
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, first = threadIdx.x / 32 % 4 * 16;
    emulator::multiply([=] {
        for (int index = 0; index < columns / 2; ++index) {
            const int row = first + index % 4 / 2 * 8 + g, column = index / 4 * 8 + 2 * t + index % 2;
            for (int k = 0; k < 8; ++k)
                sums[index] += Word::multiply(turned_word(a, row, k), turned_word(b, column, k));
        }
    });
}

/// An m64 product with rows from registers: rows g and g + 8 of a warp are those of its own lanes.
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

} // namespace ptx
