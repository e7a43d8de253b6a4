#pragma once

// What the kernels of an epilogue's backward are launched with. Host and device compile this file.
#include "base/types.cuh"

namespace tconv3d::cuda {

/// A kernel argument of its own. The host leaves as much room for operands as the epilogue has, at least for one.
template <int kOperandRoom>
struct EpilogueBwdTensors {
    const void* grad_dst;
    const void* saved; ///< dst or preactivation; null where nothing is saved
    void* grad_preactivation;
    const void* operands[kOperandRoom];
    void* grad_operands[kOperandRoom]; ///< null where it is not wanted
};

/// How the tensors are cut into items. Where channels are last, a row is as many neighbouring elements as give whole
/// packs and whole voxels.
struct EpilogueBwdArguments {
    double* partials; ///< for each operand with a value per channel and each slot, `places` sums
    int64_t items;
    int64_t channels;
    int64_t length; ///< elements of a plane; of the whole tensor where channels are last
    int64_t chunk;  ///< elements of a plane that an item has; rows where channels are last
    int64_t chunks; ///< of a plane; of the whole tensor where channels are last
    int64_t slots;  ///< partial sums of a place
    int64_t places; ///< one for each channel; one for each element of a row where channels are last
};

/// The partial sums of one operand, those of a channel `channels` apart.
struct EpilogueBwdSumsArguments {
    const double* partials;
    void* grad_operand;
    int64_t channels;
    int64_t count; ///< of a channel
};

} // namespace tconv3d::cuda
