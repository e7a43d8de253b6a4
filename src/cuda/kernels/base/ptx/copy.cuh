#pragma once

// Asynchronous copies: by the computing threads, and by TMA.
#include "base/types.cuh"

namespace ptx {

// ---- Asynchronous copies by the computing threads ----

/// Copies 16 bytes between addresses aligned to 16, past L1.
__device__ __forceinline__ void copy_async(uint32_t shared_dst, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_dst), "l"(src) : "memory");
}

/// Copies the first `bytes` of 16 bytes between addresses aligned to 16, past L1, and puts zeros behind them.
__device__ __forceinline__ void copy_async_part(uint32_t shared_dst, const void* src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_dst), "l"(src), "r"(bytes) : "memory");
}

/// Copies up to 4 bytes between addresses aligned to 4, and puts zeros behind them.
__device__ __forceinline__ void copy_async_word(uint32_t shared_dst, const void* src, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_dst), "l"(src), "r"(bytes) : "memory");
}

/// Closes the group of copy_async of this thread so far.
__device__ __forceinline__ void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until all groups of this thread but the last kPending have been copied.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- Copies by TMA, one thread issues them (sm_90a) ----

/// An encoded tensor, passed to kernels as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
    uint64_t words[16];
};

/// Copies `bytes`, a multiple of 16, between addresses aligned to 16; the barrier counts them when they have arrived.
__device__ __forceinline__ void copy_bulk(uint32_t shared_dst, const void* src, int bytes, uint32_t shared_barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_dst),
        "l"(src), "r"(bytes), "r"(shared_barrier)
        : "memory");
}

/// Copies out of shared memory, with the same rules; then closes the group of such copies of this thread so far.
__device__ __forceinline__ void copy_bulk_out(uint64_t dst, uint32_t shared_src, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(shared_src), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void copy_bulk_out_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until all groups of this thread but the last kPending have read what they copy.
template <int kPending>
__device__ __forceinline__ void copy_bulk_out_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Copies the box that starts at (x4, ..., x0), x0 along the contiguous dimension; what lies outside the tensor reads
/// as zero. The start along x0 must fall on 16 bytes.
__device__ __forceinline__ void copy_box(uint32_t shared_dst, const TensorMap& map, int x4, int x3, int x2, int x1,
                                         int x0, uint32_t shared_barrier) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_dst),
                 "l"(&map), "r"(shared_barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                 : "memory");
}

} // namespace ptx
