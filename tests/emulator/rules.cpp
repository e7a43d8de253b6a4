// Kernels that keep the rules of the hardware and, once each, break one: then the emulator must end the process.
#include <sys/wait.h>
#include <unistd.h>

#include "base/ptx.cuh"

namespace {

bool breaks; // whether the kernel breaks its rule
alignas(16) unsigned char result[64];

void aligns_stores() {
    ptx::store_shared(breaks ? 4 : 8, uint64_t{1});
}

void aligns_global_loads() {
    static volatile unsigned seen;
    seen = __ldg(reinterpret_cast<const uint4*>(result + (breaks ? 8 : 16))).x;
}

void aligns_global_stores() {
    *reinterpret_cast<volatile uint32_t*>(result + (breaks ? 2 : 4)) = 1;
}

void stays_inside() {
    ptx::load_shared(breaks ? 64 : 60);
}

void fences_before_tma_reads() {
    ptx::store_shared(0, uint32_t{1});
    if (!breaks) ptx::fence_shared_async();
    ptx::copy_bulk_out(reinterpret_cast<uint64_t>(result), 0, 16);
    ptx::copy_bulk_out_commit();
    ptx::copy_bulk_out_wait<0>();
}

void fences_before_tma_writes() {
    ptx::barrier_init(0, 1);
    ptx::fence_barrier_init();
    ptx::store_shared(16, uint32_t{1});
    if (!breaks) ptx::fence_shared_async();
    ptx::barrier_arrive_expect(0, 16);
    ptx::copy_bulk(16, result, 16, 0);
    ptx::barrier_wait(0, 0);
}

void fences_barriers() {
    ptx::barrier_init(0, 1);
    if (!breaks) ptx::fence_barrier_init();
    ptx::barrier_arrive_expect(0, 16);
    ptx::copy_bulk(16, result, 16, 0);
    ptx::barrier_wait(0, 0);
}

void waits_for_the_kernel_before() {
    emulator::set_previous(result, sizeof result);
    if (!breaks) ptx::wait_for_previous();
    ptx::copy_async(16, result);
    ptx::copy_async_commit();
    ptx::copy_async_wait<0>();
}

/// A thread of the last warp has no fence behind its store.
void fences_before_wgmma() {
    for (uint32_t byte = threadIdx.x * 16; byte < threadIdx.x * 16 + 16; byte += 4)
        ptx::store_shared(byte, uint32_t{0});
    if (!breaks || threadIdx.x != 127) ptx::fence_shared_async();
    ptx::sync_warpgroup(0);
    float sums[4] = {};
    const uint64_t rows = ptx::wgmma_descriptor(0, 1024, 128, ptx::Swizzle::none);
    ptx::wgmma<ptx::Tf32>(sums, 8, rows, rows, true);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
}

void fences_behind_cp_async() {
    ptx::fence_shared_async();
    ptx::copy_async(16, result);
    ptx::copy_async_commit();
    ptx::copy_async_wait<0>();
    if (!breaks) ptx::fence_shared_async();
    ptx::copy_bulk_out(reinterpret_cast<uint64_t>(result), 16, 16);
    ptx::copy_bulk_out_commit();
    ptx::copy_bulk_out_wait<0>();
}

/// With too few registers given, those who take some wait for ever.
void has_registers() {
    if (threadIdx.x < 128) {
        if (breaks) {
            ptx::give_registers<152>();
        } else {
            ptx::give_registers<40>();
        }
    } else {
        ptx::take_registers<232>();
    }
}

void meets_as_many() {
    emulator::meet(1, breaks && threadIdx.x >= 32 ? 32 : 64);
}

void copies_whole_units() {
    const ptx::TensorMap map = {
        result, {4, 4, 1, 1, 1}, {1, breaks ? 3 : 4, 16, 16, 16}, {4, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, 4, false, 0};
    ptx::barrier_init(0, 1);
    ptx::fence_barrier_init();
    ptx::barrier_arrive_expect(0, 16);
    ptx::copy_box(128, map, 0, 0, 0, 1, 0, 0);
    ptx::barrier_wait(0, 0);
}

/// Time is no barrier: however long the second warp does something else, the first one may have been stalled.
void waits_for_other_warps() {
    static bool stored;
    for (int repetition = 0; repetition < 1000; ++repetition) {
        if (threadIdx.x == 0) stored = true;
        if (!breaks) emulator::meet(1, 64);
        for (int i = 0; i < 4; ++i) {
            emulator::progress();
            emulator::yield();
        }
        emulator::require(stored, "warp 0 has not stored in repetition %d", repetition);
        emulator::meet(2, 64);
        stored = false;
        emulator::meet(2, 64);
    }
}

struct Rule {
    void (*kernel)();
    int threads;
    const char* name;
};

constexpr Rule kRules[] = {
    {aligns_stores, 1, "aligned stores"},
    {aligns_global_loads, 1, "aligned loads of global memory"},
    {aligns_global_stores, 1, "aligned stores to global memory"},
    {stays_inside, 1, "the size of shared memory"},
    {fences_before_tma_reads, 1, "a fence before TMA reads"},
    {fences_before_tma_writes, 1, "a fence before TMA writes"},
    {fences_barriers, 1, "a fence behind new barriers"},
    {waits_for_the_kernel_before, 1, "a wait for the kernel before"},
    {fences_before_wgmma, 128, "a fence before wgmma"},
    {fences_behind_cp_async, 1, "a fence behind cp.async"},
    {has_registers, 384, "registers to take"},
    {meets_as_many, 64, "one count of a barrier"},
    {copies_whole_units, 1, "strides of a tensor map"},
    {waits_for_other_warps, 64, "barriers between warps"},
};

/// Whether the process ends as if all were well.
bool is_kept(const Rule& rule) {
    const pid_t child = fork();
    if (child == 0) {
        if (rule.kernel == stays_inside) emulator::set_shared_bytes(64);
        emulator::run_cta(0, rule.threads, rule.kernel);
        std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

int main() {
    int wrong = 0;
    for (const Rule& rule : kRules)
        for (const bool each : {false, true}) {
            breaks = each;
            if (is_kept(rule) == breaks) wrong += std::printf("%s: %s\n", rule.name, breaks ? "not seen" : "refused");
        }
    return wrong == 0 ? 0 : 1;
}
