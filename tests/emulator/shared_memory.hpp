#pragma once

// The shared memory of a CTA, with the rules that a GPU has for it. Who breaks one ends the process with a message.
//
// Threads access shared memory by one way, TMA and wgmma by another, the async proxy. What a thread has stored is seen
// there when that thread has executed fence.proxy.async behind the store.
#include <cstddef>
#include <cstdint>

namespace emulator {

constexpr int kSharedBytes = 227 << 10; ///< that a CTA may have on compute capability 9.0

/// Ends the process with the message, as printf prints it.
[[noreturn]] void end(const char* message, ...);

/// Does so unless the rule holds.
template <typename... Values>
void require(bool holds, const char* message, Values... values) {
    if (!holds) end(message, values...);
}

/// For the CTAs that follow: how much shared memory they are launched with.
void set_shared_bytes(int64_t bytes);

/// Forgets everything: a new CTA finds bytes that are not a number in any type.
void poison_shared();

/// A thread's accesses, aligned to their size.
void load(void* to, uint32_t shared_src, size_t bytes);
void store(uint32_t shared_dst, const void* from, size_t bytes);

/// fence.proxy.async of this thread.
void fence_async();

/// What a cp.async writes. A thread that has wgmma read it executes a fence between the two.
void copied_store(uint32_t shared_dst, const void* from, size_t bytes);

/// What TMA writes.
void async_store(uint32_t shared_dst, const void* from, size_t bytes);

/// Says that TMA or wgmma reads these bytes from now on.
void async_reads(uint32_t shared_src, size_t bytes);

/// What they read, some time later.
const unsigned char* async_load(uint32_t shared_src, size_t bytes);

} // namespace emulator
