#pragma once

// A CTA on the host: each of its threads is a fiber, and one runs at a time until it has to wait for others. Copies are
// done some time after they are asked for, in any order, asynchronous products as late as they may be, and warps are
// stalled now and then: what does not wait for others gets old data. That checks the arithmetic of a kernel, its
// barriers and the rules of the hardware without a GPU, not its speed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "shared_memory.hpp"

#define __device__
#define __host__
#define __global__
#define __shared__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__
#define __align__(bytes)
#define __launch_bounds__(...)

struct Dimensions {
    int x, y, z;
};
extern Dimensions threadIdx, blockIdx, blockDim, gridDim;

using std::max;
using std::min;

namespace emulator {

/// Lets the other threads run until there is something new.
void yield();
/// Says that something happened that others may wait for.
void progress();

/// A barrier for `count` threads that is known by its number: always whole warps, and always as many.
constexpr int kAllThreads = 0, kFirstWarp = 16;
void meet(int number, int count);

/// The words that the lanes of a warp give, all at once; valid until `exchanged` lets the next ones come.
constexpr int kMostWords = 8;
struct Words {
    uint32_t words[kMostWords];
};
const Words* exchange(const uint32_t* words, int count);
void exchanged();

/// Does the work at some later time.
void later(std::function<void()> work);

/// Copies of a thread out of shared memory: of the group that is open, and a wait for all groups but the last ones.
void copy_out(std::function<void()> copy);
void close_copies();
void wait_copies(int pending);

/// Copies of a thread into shared memory, likewise. They are done when they are waited for, or by whoever takes them.
void copy_in(std::function<void()> copy);
void close_copies_in();
void wait_copies_in(int pending);
std::vector<std::function<void()>> take_copies_in();

/// Products of a thread, likewise. They are done when they are waited for.
void multiply(std::function<void()> product);
void close_products();
void wait_products(int pending);

/// Runs the threads of a CTA to their end; a deadlock ends the process.
void run_cta(int block, int threads, void (*thread)());

/// setmaxnreg: a warp has so many registers a thread from now on. Who takes some waits until others have given them.
void take_registers(int registers);
void give_registers(int registers);

/// For the CTAs that follow: what the kernel before them writes. A thread that copies it has waited for that kernel.
void set_previous(const void* results, size_t bytes);
void wait_for_previous();
void require_waited(const void* src);

/// Its barriers, by address. TMA sees those that a thread has made when that thread has fenced them.
void barrier_init(uint32_t address, int arrivals);
void fence_barriers();
void barrier_arrive(uint32_t address);
void barrier_expect(uint32_t address, int bytes);
void barrier_wait(uint32_t address, int parity);

template <typename Value>
Value shuffle(Value value, int lane) {
    static_assert(sizeof value == 4);
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    word = exchange(&word, 1)[lane].words[0];
    exchanged();
    std::memcpy(&value, &word, sizeof word);
    return value;
}

} // namespace emulator

/// What kernels call their shared memory: only its address counts, which is 0. Entries have C linkage, and so has what
/// they declare; other functions declare the same array because this declaration comes first.
extern "C" unsigned char shared[];

inline void __syncthreads() {
    emulator::meet(emulator::kAllThreads, blockDim.x);
}
inline void __syncwarp() {
    emulator::meet(emulator::kFirstWarp + threadIdx.x / 32, 32);
}
template <typename Value>
Value __shfl_sync(unsigned, Value value, int lane) {
    return emulator::shuffle(value, lane);
}
template <typename Value>
Value __shfl_xor_sync(unsigned, Value value, int mask) {
    return emulator::shuffle(value, threadIdx.x % 32 ^ mask);
}
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
template <typename Value>
Value __ldg(const Value* value) {
    return *value;
}
inline float __uint_as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline float __int_as_float(int bits) {
    return __uint_as_float(static_cast<uint32_t>(bits));
}
inline double __longlong_as_double(long long bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline uint32_t __float_as_uint(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) {
    return static_cast<uint32_t>((low | static_cast<uint64_t>(high) << 32) >> shift % 32);
}
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
    const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return word;
}
