// The packing kernel, all CTAs one after another.
#include "device.hpp"

#include "pack_prelude.hpp"

#include "pack_weights.cuh"

namespace {
const Storage* the_weight;
int the_order;
uint32_t* the_packed;
} // namespace

void run_pack(const void* weight, bool channels_last, void* packed, int grid_x, int grid_y, int threads) {
    the_weight = static_cast<const Storage*>(weight);
    the_order = channels_last ? 1 : 0;
    the_packed = static_cast<uint32_t*>(packed);
    gridDim = {grid_x, grid_y, 1};
    for (int y = 0; y < grid_y; ++y)
        for (int x = 0; x < grid_x; ++x) {
            blockIdx.y = y;
            emulator::run_cta(x, threads, [] { pack_weights(the_weight, the_order, the_packed); });
        }
}
