#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tconv3d/epilogue_bwd.hpp"
#include "tconv3d/plan.hpp"

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

/// Throws Error unless the problem is valid and can have the epilogue, which belongs to fwd.
void require_plannable(const Problem& problem, const Epilogue& epilogue);

/// A tensor that a direction cannot do without.
struct RequiredTensor {
    const char* name;
    const void* data;
    bool batched; ///< with a batch of 0 it holds nothing, and its pointer may be null
};

/// Those that the direction reads, then the one that it writes.
std::array<RequiredTensor, 3> required_tensors(Direction direction, const Arguments& arguments);

/// Throws Error unless all that a plan needs is there.
void require_arguments(const Problem& problem, const Epilogue& epilogue, const Arguments& arguments);

/// Throws Error unless the problem is valid and all that the epilogue's backward needs is there.
void require_epilogue_gradients(const Problem& problem, const Epilogue& epilogue, const EpilogueGradients& gradients);

} // namespace tconv3d
