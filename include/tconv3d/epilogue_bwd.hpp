#pragma once

#include <vector>

#include "tconv3d/epilogue.hpp"
#include "tconv3d/executor.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d {

/// The data of an epilogue's backward. Tensors are shaped like dst, in the problem's layout and dtype; channel operands
/// and their gradients hold dst_channels values.
struct EpilogueGradients {
    const void* grad_dst = nullptr;
    const void* saved = nullptr; ///< dst or preactivation, as Epilogue::saved() says; null for Saved::nothing
    std::vector<const void*> operands;

    void* grad_preactivation = nullptr;
    std::vector<void*> grad_operands; ///< empty, or one per operand; null where it is not wanted
};

/// grad_preactivation = grad_dst · d(chain)/d(preactivation), and the gradients of the chain's tensors.
void epilogue_bwd(const Problem& problem, const Epilogue& epilogue, const EpilogueGradients& gradients,
                  Executor& executor);

} // namespace tconv3d
