#pragma once

#include "device.hpp"

namespace ptx {

/// Where TMA and tensor cores find what would be at an address.
inline uint32_t swizzled(uint32_t address, int row_bytes) {
    if (row_bytes == 0) return address;
    return address ^ (address >> 7 & static_cast<uint32_t>(row_bytes / 16 - 1)) << 4;
}

} // namespace ptx
