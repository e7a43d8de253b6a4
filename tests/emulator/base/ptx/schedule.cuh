#pragma once

#include "device.hpp"

namespace ptx {

inline void barrier_init(uint32_t shared_barrier, int arrivals) {
    emulator::barrier_init(shared_barrier, arrivals);
}
inline void fence_barrier_init() {
    emulator::fence_barriers();
}
inline void barrier_arrive(uint32_t shared_barrier) {
    emulator::barrier_arrive(shared_barrier);
}
inline void barrier_arrive_expect(uint32_t shared_barrier, int bytes) {
    emulator::barrier_expect(shared_barrier, bytes);
    emulator::barrier_arrive(shared_barrier);
}
inline void barrier_wait(uint32_t shared_barrier, int parity) {
    emulator::barrier_wait(shared_barrier, parity);
}
template <int kCount>
void sync_threads() {
    emulator::meet(1, kCount);
}
inline void sync_warpgroup(int warpgroup) {
    emulator::meet(2 + warpgroup, 128);
}
inline void fence_shared_async() {
    emulator::fence_async();
}
inline void let_next_start() {}
inline void wait_for_previous() {
    emulator::wait_for_previous();
}

template <int kRegisters>
void take_registers() {
    emulator::take_registers(kRegisters);
}
template <int kRegisters>
void give_registers() {
    emulator::give_registers(kRegisters);
}

} // namespace ptx
