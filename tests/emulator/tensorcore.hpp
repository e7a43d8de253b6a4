#pragma once

// Tensor-core kernels on the host, many in one program: each problem has a namespace of its own, in which its kernel,
// the one that packs its weights and tensorcore_case/is_exact.hpp are included. The test writes that. What kernels
// include of base and shared does not depend on the problem, and is included here.
#include <type_traits>

#include "device.hpp"

#include "base/ptx.cuh"
#include "base/storage.cuh"
#include "check.hpp"
#include "finish/steps.cuh"
#include "shared/output.cuh"
#include "shared/tensorcore.cuh"
#include "shared/voxel_extents.cuh"

/// Kernels call theirs by this name, ::make_opaque; here it is in the namespace of a problem, with its argument's type.
template <typename Value>
void make_opaque(Value& value) {
    if constexpr (std::is_class_v<Value>) make_opaque(value);
}
