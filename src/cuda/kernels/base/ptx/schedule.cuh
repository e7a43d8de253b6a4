#pragma once

// What threads, warpgroups and kernels wait for: barriers, fences, the kernel before, and registers that change hands.
#include "base/types.cuh"

namespace ptx {

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

// ---- Programmatic dependent launch (sm_90): a kernel starts while the one before it on the stream still runs ----

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

// ---- Registers of a warpgroup (sm_90a): producers give theirs to consumers. Counts are multiples of 8. ----

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

} // namespace ptx
