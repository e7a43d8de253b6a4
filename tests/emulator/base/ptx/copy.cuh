#pragma once

#include <array>

#include "base/ptx/convert.cuh"
#include "base/ptx/swizzle.cuh"

namespace ptx {

inline void require_aligned(uint64_t a, uint64_t b, int64_t bytes) {
    emulator::require(a % 16 == 0 && b % 16 == 0 && bytes % 16 == 0 && bytes > 0,
                      "a copy of %lld bytes is between addresses that are not aligned", static_cast<long long>(bytes));
}
inline void copy_async_part(uint32_t shared_dst, const void* src, int bytes) {
    require_aligned(shared_dst, reinterpret_cast<uint64_t>(src), 16);
    emulator::require(bytes >= 0 && bytes <= 16, "cp.async has %d of 16 bytes", bytes);
    emulator::require_waited(src);
    emulator::copy_in([=] {
        unsigned char copied[16] = {};
        std::memcpy(copied, src, static_cast<size_t>(bytes));
        emulator::copied_store(shared_dst, copied, sizeof copied);
    });
}
inline void copy_async(uint32_t shared_dst, const void* src) {
    copy_async_part(shared_dst, src, 16);
}
inline void copy_async_word(uint32_t shared_dst, const void* src, int bytes) {
    emulator::require(shared_dst % 4 == 0 && reinterpret_cast<uint64_t>(src) % 4 == 0 && bytes >= 0 && bytes <= 4,
                      "cp.async has %d of 4 bytes", bytes);
    emulator::copy_in([=] {
        unsigned char copied[4] = {};
        std::memcpy(copied, src, static_cast<size_t>(bytes));
        emulator::copied_store(shared_dst, copied, sizeof copied);
    });
}
inline void copy_async_commit() {
    emulator::close_copies_in();
}
template <int kPending>
void copy_async_wait() {
    emulator::wait_copies_in(kPending);
}
inline void copy_async_arrive(uint32_t shared_barrier) {
    emulator::later([shared_barrier, copies = emulator::take_copies_in()] {
        for (const auto& copy : copies) copy();
        emulator::barrier_arrive(shared_barrier);
    });
}

/// Extents, strides and box from the contiguous dimension on, and from an element that is copied to the next one;
/// rounds to tf32 where the elements are.
struct TensorMap {
    const unsigned char* src;
    int64_t extents[5];
    int64_t strides[5];
    int64_t box[5];
    int64_t steps[5];
    int bytes;
    bool tf32;
    int swizzle; // bytes of a row, 0 for none
};

/// What cuTensorMapEncodeTiled and the PTX manual ask for, and what was seen on an H200: the first element that a box
/// has along its contiguous dimension falls on 16 bytes.
inline void require_map(const TensorMap& map) {
    emulator::require(reinterpret_cast<uint64_t>(map.src) % 16 == 0, "TMA reads a tensor at %p", map.src);
    emulator::require(map.steps[0] == 1, "TMA takes every %d-th element of a row", static_cast<int>(map.steps[0]));
    const int64_t row = map.box[0] * map.bytes;
    emulator::require(row % 16 == 0 && (map.swizzle == 0 || row <= map.swizzle), "a row of a box has %d bytes",
                      static_cast<int>(row));
    for (int i = 0; i < 5; ++i) {
        const int64_t box = map.box[i] * map.steps[i], stride = map.strides[i] * map.bytes;
        emulator::require(map.extents[i] >= 1 && map.extents[i] <= int64_t{1} << 32, "dimension %d has extent %lld", i,
                          static_cast<long long>(map.extents[i]));
        emulator::require(box >= 1 && box <= 256 && map.steps[i] <= 8, "dimension %d has a box of %d by %d", i,
                          static_cast<int>(map.box[i]), static_cast<int>(map.steps[i]));
        emulator::require(i == 0 || (stride % 16 == 0 && stride < int64_t{1} << 40), "dimension %d has stride %lld", i,
                          static_cast<long long>(stride));
    }
}

inline void copy_bulk(uint32_t shared_dst, const void* src, int bytes, uint32_t shared_barrier) {
    require_aligned(shared_dst, reinterpret_cast<uint64_t>(src), bytes);
    emulator::require_waited(src);
    emulator::later([=] {
        emulator::async_store(shared_dst, src, static_cast<size_t>(bytes));
        emulator::barrier_expect(shared_barrier, -bytes);
    });
}
inline void copy_bulk_out(uint64_t dst, uint32_t shared_src, int bytes) {
    require_aligned(dst, shared_src, bytes);
    const auto count = static_cast<size_t>(bytes);
    emulator::async_reads(shared_src, count);
    emulator::copy_out(
        [=] { std::memcpy(reinterpret_cast<void*>(dst), emulator::async_load(shared_src, count), count); });
}
inline void copy_bulk_out_commit() {
    emulator::close_copies();
}
template <int kPending>
void copy_bulk_out_wait() {
    emulator::wait_copies(kPending);
}

/// Puts a box into shared memory, in the order of extents.
inline void read_box(uint32_t shared_dst, const TensorMap& map, const std::array<int64_t, 5>& start, int64_t total) {
    for (int64_t index = 0; index < total; ++index) {
        int64_t rest = index, place = 0;
        bool inside = true;
        for (int i = 0; i < 5; ++i) {
            const int64_t at = start[static_cast<size_t>(i)] + rest % map.box[i] * map.steps[i];
            rest /= map.box[i];
            inside = inside && at >= 0 && at < map.extents[i];
            place += at * map.strides[i];
        }
        const uint32_t address = shared_dst + static_cast<uint32_t>(index * map.bytes);
        uint32_t element = 0;
        if (inside) std::memcpy(&element, map.src + place * map.bytes, static_cast<size_t>(map.bytes));
        if (map.tf32) element = float_to_tf32(__uint_as_float(element));
        emulator::async_store(swizzled(address, map.swizzle), &element, static_cast<size_t>(map.bytes));
    }
}

inline void copy_box(uint32_t shared_dst, const TensorMap& map, int x4, int x3, int x2, int x1, int x0,
                     uint32_t shared_barrier) {
    const std::array<int64_t, 5> start = {x0, x1, x2, x3, x4};
    const int64_t total = map.box[0] * map.box[1] * map.box[2] * map.box[3] * map.box[4];
    require_map(map);
    emulator::require(shared_dst % 128 == 0, "TMA writes a box to address %u", shared_dst);
    emulator::require(start[0] * map.bytes % 16 == 0, "a box begins at element %d of a row", x0);
    emulator::later([=] {
        read_box(shared_dst, map, start, total);
        emulator::barrier_expect(shared_barrier, static_cast<int>(-total * map.bytes));
    });
}

} // namespace ptx
