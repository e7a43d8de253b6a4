#pragma once

#include <string>
#include <vector>

namespace tconv3d::cpu {

/// The instruction sets that the kernels are compiled for, widest first.
enum class Isa { avx512, avx2, portable };

struct IsaStatus {
    Isa isa;
    bool available;
    std::string why; ///< what this machine or build lacks; empty when available
};

const char* name(Isa isa);

/// Every instruction set, widest first, and whether this machine can run it.
std::vector<IsaStatus> isa_statuses();

/// The widest available one, or the one that TCONV3D_ISA names; throws Error when that one is unknown or unavailable.
Isa chosen_isa();

} // namespace tconv3d::cpu
