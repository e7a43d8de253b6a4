#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tconv3d/epilogue.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d {

/// Throws Error unless `pointer` is there; `who` needs it.
void require_present(const void* pointer, const std::string& what, const std::string& who);

/// Throws Error unless `pointer` is a multiple of that many bytes.
void require_aligned(const void* pointer, size_t bytes, const std::string& what);

/// Throws Error: `who` does not take a weight in channels_last_3d.
[[noreturn]] void refuse_channels_last_weight(const std::string& who);

/// Throws Error unless there is a pointer for each tensor of the epilogue.
void require_operands(const Problem& problem, const Epilogue& epilogue, const std::vector<const void*>& operands,
                      const std::string& who);

} // namespace tconv3d
