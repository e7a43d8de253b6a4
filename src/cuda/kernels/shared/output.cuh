#pragma once

// Where the results of a kernel go, for host and device: both compile this file.

namespace tconv3d::cuda {

/// A kernel argument of its own. The host leaves as much room for operands as the epilogue has, at least for one.
template <typename Element, int kOperandRoom>
struct OutputTensors {
    Element* out;
    Element* preactivation; ///< accumulator + bias, where backward wants it
    const Element* bias;
    const void* operands[kOperandRoom]; ///< tensors of the epilogue, in the order of its steps
};

} // namespace tconv3d::cuda
