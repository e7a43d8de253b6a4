#pragma once

#include "device.hpp"

namespace ptx {

inline uint32_t shared_address(const void*) {
    return 0;
}
inline const void* steps_behind(const void* from, uint32_t step, uint32_t number) {
    return static_cast<const char*>(from) + static_cast<uint64_t>(step) * number;
}
template <typename Value>
void load_shared(Value& value, uint32_t shared_src) {
    emulator::load(&value, shared_src, sizeof value);
}
inline uint32_t load_shared(uint32_t shared_src) {
    uint32_t word;
    load_shared(word, shared_src);
    return word;
}
template <typename Value>
void store_shared(uint32_t shared_dst, const Value& value) {
    emulator::store(shared_dst, &value, sizeof value);
}

template <typename Value>
void store_shared_if(bool wanted, uint32_t shared_dst, const Value& value) {
    if (wanted) store_shared(shared_dst, value);
}

inline void store_shared_half_if(bool wanted, uint32_t shared_dst, uint32_t word) {
    store_shared_if(wanted, shared_dst, static_cast<uint16_t>(word));
}

template <int kOffset, typename Words>
void load_readonly_if(bool wanted, const void* src, Words& words) {
    if (!wanted) return;
    const uint64_t address = reinterpret_cast<uint64_t>(src) + kOffset;
    emulator::require(address % sizeof words == 0, "a load of %d bytes is from address %llu",
                      static_cast<int>(sizeof words), static_cast<unsigned long long>(address));
    std::memcpy(&words, reinterpret_cast<const void*>(address), sizeof words);
}

template <typename Words>
void store_if(bool wanted, void* dst, const Words& words) {
    if (!wanted) return;
    emulator::require(reinterpret_cast<uint64_t>(dst) % sizeof words == 0, "a store of %d bytes is to %p",
                      static_cast<int>(sizeof words), dst);
    std::memcpy(dst, &words, sizeof words);
}

} // namespace ptx
