#pragma once

// Tensor cores: their fragments, mma.sync of a warp and wgmma of a warpgroup.
#include "base/types.cuh"

namespace ptx {

/// Clears the register where it is: a plain 0 may become another register, and a copy.
__device__ __forceinline__ void clear(float& value) {
    asm volatile("mov.f32 %0, 0f00000000;" : "=f"(value));
}

// ---- Tensor cores, one warp at a time ----

/// Loads four 8x8 matrices of 16-bit elements. Lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&matrices)[4], uint32_t shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared_row)
                 : "memory");
}

/// Loads four 8x8 matrices of 16-bit elements, each transposed. Lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&matrices)[4], uint32_t shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared_row)
                 : "memory");
}

/// Turns an 8x8 matrix of 16-bit elements around: a lane gives columns 2t and 2t + 1 of row g and gets those of the
/// transposed matrix, with g = lane / 4 and t = lane % 4.
__device__ __forceinline__ uint32_t transpose_matrix(uint32_t matrix) {
    uint32_t transposed;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(matrix));
    return transposed;
}

// Fragments, with g = lane / 4 and t = lane % 4: c holds rows g (c[0], c[1]) and g + 8 (c[2], c[3]),
// columns 2t and 2t + 1.

/// c += a * b, m16n8k8. a: rows g, g + 8, g, g + 8 of columns t, t, t + 4, t + 4; b: rows t, t + 4 of column g.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// c += a * b, m16n8k16. As for tf32, with words of two neighbours along k: columns 2t, 2t + 1 and 2t + 8, 2t + 9.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ---- Warpgroup matrix multiplication (sm_90a) ----

/// Before the first wgmma on registers that this thread has written.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes the group of wgmmas so far.
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most kPending groups are under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

enum class Swizzle : uint64_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// Describes a K-major operand in shared memory. Without swizzle its cores are 8 rows of 16 bytes, `leading_bytes`
/// apart along k and `stride_bytes` apart along the rows. With swizzle, groups of 8 rows are `stride_bytes` apart.
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t shared_start, uint32_t leading_bytes,
                                                     uint32_t stride_bytes, Swizzle swizzle) {
    const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3FFFF) >> 4); };
    return field(shared_start) | field(leading_bytes) << 16 | field(stride_bytes) << 32 |
           static_cast<uint64_t>(swizzle) << 62;
}

} // namespace ptx
