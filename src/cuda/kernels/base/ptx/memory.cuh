#pragma once

// Loads and stores of registers.
#include "base/types.cuh"

namespace ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// The address so many steps of bytes behind another one. A compiler that saw the product would compute it once for
/// each number and keep all of them in registers.
__device__ __forceinline__ const void* steps_behind(const void* from, uint32_t step, uint32_t number) {
    uint64_t address;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(address) : "r"(step), "r"(number), "l"(from));
    return reinterpret_cast<const void*>(address);
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

__device__ __forceinline__ void store_shared(uint32_t shared_dst, const uint32_t (&words)[1]) {
    store_shared(shared_dst, words[0]);
}

__device__ __forceinline__ void store_shared(uint32_t shared_dst, const uint32_t (&words)[2]) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared_dst), "r"(words[0]), "r"(words[1]) : "memory");
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

} // namespace ptx
