#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tconv3d::cuda {

using Digest = std::array<uint8_t, 32>;

/// SHA-256 (FIPS 180-4). As a cache key it needs no further comparison: no two texts with one digest are known.
Digest sha256(std::string_view text);

std::string hexadecimal(const Digest& digest);

} // namespace tconv3d::cuda
