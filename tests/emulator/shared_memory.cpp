#include "shared_memory.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.hpp"

namespace emulator {

namespace {

constexpr int kMostThreads = 1024;

/// Who stored a word last, and how many fences that thread had executed before.
struct Writer {
    uint32_t thread_and_one = 0; // 0 where no thread has
    uint32_t fences = 0;
    int64_t copied = 0; // where a cp.async has: when, counted in copies and fences
};

alignas(1024) unsigned char memory[kSharedBytes];
Writer writers[kSharedBytes / 4];
uint32_t fences[kMostThreads];
int64_t now, last_fence[kMostThreads]; // counted in copies and fences
int64_t shared_bytes = kSharedBytes;

void require_inside(uint32_t address, size_t bytes, const char* who) {
    require(address + static_cast<int64_t>(bytes) <= shared_bytes, "%s accesses bytes %u to %u of %d of shared memory",
            who, address, static_cast<uint32_t>(address + bytes), static_cast<int>(shared_bytes));
}

void require_fenced(uint32_t address, size_t bytes, const char* who) {
    for (size_t word = address / 4; word < (address + bytes + 3) / 4; ++word) {
        const Writer& writer = writers[word];
        require(writer.copied == 0 || last_fence[threadIdx.x] > writer.copied,
                "%s accesses byte %u of shared memory, which a cp.async has written, without a fence since then", who,
                static_cast<uint32_t>(word * 4));
        require(writer.thread_and_one == 0 || fences[writer.thread_and_one - 1] > writer.fences,
                "%s accesses byte %u of shared memory, which thread %u has stored without a fence behind it", who,
                static_cast<uint32_t>(word * 4), writer.thread_and_one - 1);
    }
}

} // namespace

void end(const char* message, ...) {
    std::printf("thread %d of CTA %d: ", threadIdx.x, blockIdx.x);
    va_list values;
    va_start(values, message);
    std::vprintf(message, values);
    va_end(values);
    std::printf("\n");
    std::exit(3);
}

void set_shared_bytes(int64_t bytes) {
    require(bytes <= kSharedBytes, "a CTA cannot have %lld bytes of shared memory", static_cast<long long>(bytes));
    shared_bytes = bytes;
}

void poison_shared() {
    std::memset(memory, 0xFF, sizeof memory);
    std::memset(fences, 0, sizeof fences);
    std::memset(last_fence, 0, sizeof last_fence);
    for (Writer& writer : writers) writer = {};
}

void load(void* to, uint32_t shared_src, size_t bytes) {
    require_inside(shared_src, bytes, "a load");
    require(shared_src % bytes == 0, "a load of %d bytes is from address %u", static_cast<int>(bytes), shared_src);
    std::memcpy(to, memory + shared_src, bytes);
}

void store(uint32_t shared_dst, const void* from, size_t bytes) {
    require_inside(shared_dst, bytes, "a store");
    require(shared_dst % bytes == 0, "a store of %d bytes is to address %u", static_cast<int>(bytes), shared_dst);
    std::memcpy(memory + shared_dst, from, bytes);
    const auto thread = static_cast<uint32_t>(threadIdx.x);
    for (size_t word = shared_dst / 4; word < (shared_dst + bytes + 3) / 4; ++word)
        writers[word] = {thread + 1, fences[thread], 0};
}

void fence_async() {
    ++fences[threadIdx.x];
    last_fence[threadIdx.x] = ++now;
}

void copied_store(uint32_t shared_dst, const void* from, size_t bytes) {
    require_inside(shared_dst, bytes, "cp.async");
    std::memcpy(memory + shared_dst, from, bytes);
    ++now;
    for (size_t word = shared_dst / 4; word < (shared_dst + bytes + 3) / 4; ++word) writers[word] = {0, 0, now};
}

void async_store(uint32_t shared_dst, const void* from, size_t bytes) {
    require_inside(shared_dst, bytes, "TMA");
    require_fenced(shared_dst, bytes, "TMA");
    std::memcpy(memory + shared_dst, from, bytes);
    for (size_t word = shared_dst / 4; word < (shared_dst + bytes + 3) / 4; ++word) writers[word] = {};
}

void async_reads(uint32_t shared_src, size_t bytes) {
    require_inside(shared_src, bytes, "TMA or wgmma");
    require_fenced(shared_src, bytes, "TMA or wgmma");
}

const unsigned char* async_load(uint32_t shared_src, size_t bytes) {
    require_inside(shared_src, bytes, "TMA or wgmma");
    return memory + shared_src;
}

} // namespace emulator
