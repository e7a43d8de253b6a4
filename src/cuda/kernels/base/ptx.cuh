#pragma once

#include "base/types.cuh"

// One function for each machine instruction that C++ has no word for. Addresses named `shared_*` are byte addresses
// in shared memory, from shared_address(). What needs sm_90a says so; the rest runs on sm_80 and later.
namespace ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- Conversions. The 16-bit types travel as their bits. ----

__device__ __forceinline__ float bf16_to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

/// Rounds to nearest, ties to even, as every conversion here but tf32 does.
__device__ __forceinline__ uint16_t float_to_bf16(float value) {
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ float f16_to_float(uint16_t bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ uint16_t float_to_f16(float value) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

/// Two values in one word, the first in its low half.
__device__ __forceinline__ uint32_t floats_to_bf16(float first, float second) {
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}

__device__ __forceinline__ uint32_t floats_to_f16(float first, float second) {
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}

/// Rounds to tf32, ties away from zero. Without it the tensor cores cut the low bits off.
__device__ __forceinline__ uint32_t float_to_tf32(float value) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

/// Clears the register where it is: a plain 0 may become another register, and a copy.
__device__ __forceinline__ void clear(float& value) {
    asm volatile("mov.f32 %0, 0f00000000;" : "=f"(value));
}

// ---- Shared memory by address ----

__device__ __forceinline__ uint32_t load_shared(uint32_t shared_src) {
    uint32_t word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared_src) : "memory");
    return word;
}

__device__ __forceinline__ void load_shared(uint32_t (&words)[4], uint32_t shared_src) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_src)
                 : "memory");
}

__device__ __forceinline__ void load_shared(uint32_t& word, uint32_t shared_src) {
    word = load_shared(shared_src);
}

__device__ __forceinline__ void load_shared(uint16_t& half, uint32_t shared_src) {
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(half) : "r"(shared_src) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t shared_dst, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared_dst), "f"(value) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t shared_dst, uint32_t word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared_dst), "r"(word) : "memory");
}

/// Bf16 or F16.
template <typename Half>
__device__ __forceinline__ void store_shared(uint32_t shared_dst, Half value) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(shared_dst), "h"(value.bits) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t shared_dst, const uint32_t (&words)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared_dst), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
}

// ---- Loads by a predicate, of tensors that the kernel does not write: words that are not wanted stay as they are. The
// offset in bytes is a part of the instruction. The compiler would add it to addresses of 64 bits, one for each load,
// and keep these in registers. ----

template <int kOffset>
__device__ __forceinline__ void load_readonly_if(bool wanted, const void* src, uint16_t (&word)[1]) {
    asm("{.reg .pred p; setp.ne.b32 p, %1, 0; @p ld.global.nc.b16 %0, [%2+%3];}"
        : "+h"(word[0])
        : "r"(int(wanted)), "l"(src), "n"(kOffset));
}

template <int kOffset>
__device__ __forceinline__ void load_readonly_if(bool wanted, const void* src, uint32_t (&words)[1]) {
    asm("{.reg .pred p; setp.ne.b32 p, %1, 0; @p ld.global.nc.b32 %0, [%2+%3];}"
        : "+r"(words[0])
        : "r"(int(wanted)), "l"(src), "n"(kOffset));
}

template <int kOffset>
__device__ __forceinline__ void load_readonly_if(bool wanted, const void* src, uint32_t (&words)[2]) {
    asm("{.reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%3+%4];}"
        : "+r"(words[0]), "+r"(words[1])
        : "r"(int(wanted)), "l"(src), "n"(kOffset));
}

template <int kOffset>
__device__ __forceinline__ void load_readonly_if(bool wanted, const void* src, uint32_t (&words)[4]) {
    asm("{.reg .pred p; setp.ne.b32 p, %4, 0; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%5+%6];}"
        : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
        : "r"(int(wanted)), "l"(src), "n"(kOffset));
}

// ---- Stores by a predicate instead of a branch, so that many are under way. No kernel reads what it has stored in
// global memory, so they are no barrier for other accesses. ----

__device__ __forceinline__ void store_if(bool wanted, void* dst, const uint16_t (&word)[1]) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b16 [%1], %2;}" ::"r"(int(wanted)), "l"(dst),
                 "h"(word[0]));
}

__device__ __forceinline__ void store_if(bool wanted, void* dst, const uint32_t (&words)[1]) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.b32 [%1], %2;}" ::"r"(int(wanted)), "l"(dst),
                 "r"(words[0]));
}

__device__ __forceinline__ void store_if(bool wanted, void* dst, const uint32_t (&words)[2]) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v2.b32 [%1], {%2, %3};}" ::"r"(int(wanted)),
                 "l"(dst), "r"(words[0]), "r"(words[1]));
}

__device__ __forceinline__ void store_if(bool wanted, void* dst, const uint32_t (&words)[4]) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.v4.b32 [%1], {%2, %3, %4, %5};}" ::"r"(int(wanted)),
                 "l"(dst), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
}

/// To shared memory, which is read again: behind a fence or barrier, that volatile statements do not cross.
__device__ __forceinline__ void store_shared_if(bool wanted, uint32_t shared_dst, float value) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.shared.f32 [%1], %2;}" ::"r"(int(wanted)), "r"(shared_dst),
                 "f"(value));
}

/// Bf16 or F16.
template <typename Half>
__device__ __forceinline__ void store_shared_if(bool wanted, uint32_t shared_dst, Half value) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.shared.b16 [%1], %2;}" ::"r"(int(wanted)), "r"(shared_dst),
                 "h"(value.bits));
}

__device__ __forceinline__ void store_shared_if(bool wanted, uint32_t shared_dst, const uint32_t (&words)[1]) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.shared.b32 [%1], %2;}" ::"r"(int(wanted)), "r"(shared_dst),
                 "r"(words[0]));
}

__device__ __forceinline__ void store_shared_if(bool wanted, uint32_t shared_dst, const uint32_t (&words)[2]) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.shared.v2.b32 [%1], {%2, %3};}" ::"r"(int(wanted)),
                 "r"(shared_dst), "r"(words[0]), "r"(words[1]));
}

__device__ __forceinline__ void store_shared_if(bool wanted, uint32_t shared_dst, const uint32_t (&words)[4]) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.shared.v4.b32 [%1], {%2, %3, %4, %5};}" ::"r"(int(wanted)),
                 "r"(shared_dst), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
}

/// The low half of a word.
__device__ __forceinline__ void store_shared_half_if(bool wanted, uint32_t shared_dst, uint32_t word) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.shared.b16 [%1], %2;}" ::"r"(int(wanted)), "r"(shared_dst),
                 "h"(static_cast<uint16_t>(word)));
}

// ---- Asynchronous copies by the computing threads ----

/// Copies 16 bytes between addresses aligned to it, past L1.
__device__ __forceinline__ void copy_async(uint32_t shared_dst, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_dst), "l"(src) : "memory");
}

/// The same of the first `bytes` alone, and zeros behind them.
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

// ---- Tensor cores, one warp at a time ----

/// Four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&matrices)[4], uint32_t shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared_row)
                 : "memory");
}

/// The same, each of them transposed.
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

// ---- Barriers in shared memory, 8 bytes each ----

__device__ __forceinline__ void barrier_init(uint32_t shared_barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_barrier), "r"(arrivals) : "memory");
}

/// After barrier_init and before __syncthreads: makes the barriers visible to TMA (sm_90a).
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t shared_barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_barrier) : "memory");
}

/// Arrives once all copy_async of this thread so far have been done.
__device__ __forceinline__ void copy_async_arrive(uint32_t shared_barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_barrier) : "memory");
}

/// Arrives, and has the phase wait for this many bytes of copies too (sm_90a).
__device__ __forceinline__ void barrier_arrive_expect(uint32_t shared_barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_barrier), "r"(bytes) : "memory");
}

/// Waits for the end of the phase of this parity: phases count 0, 1, 0, 1, ... from barrier_init.
__device__ __forceinline__ void barrier_wait(uint32_t shared_barrier, int parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
#if __CUDA_ARCH__ >= 900
                 "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
#else
                 "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
#endif

                 "@!done bra again;\n"
                 "}" ::"r"(shared_barrier),
                 "r"(parity)
                 : "memory");
}

/// A barrier for the first kCount threads, beside that of __syncthreads.
template <int kCount>
__device__ __forceinline__ void sync_threads() {
    asm volatile("bar.sync 1, %0;" ::"n"(kCount) : "memory");
}

/// A barrier for the threads of one of the first warpgroups.
__device__ __forceinline__ void sync_warpgroup(int warpgroup) {
    asm volatile("bar.sync %0, 128;" ::"r"(2 + warpgroup) : "memory");
}

/// Orders this thread's plain accesses to shared memory before later ones of TMA and of wgmma (sm_90a).
__device__ __forceinline__ void fence_shared_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
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

// ---- Kernels side by side (sm_90): one that is launched beside the one before it on the stream ----

/// Lets the next kernel start once all blocks have called this or ended.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the kernel before has ended and all that it wrote is there.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- Registers of a warpgroup (sm_90a): the producers give theirs to the consumers. Counts are multiples of 8. ----

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

} // namespace ptx
