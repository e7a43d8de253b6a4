#pragma once

#include <vector>

#include "../core/index_map.hpp"
#include "kernels.hpp"
#include "slab.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d::cpu {

/// Finishes rows of sums: bias, preactivation, epilogue, rounding, and the store in the tensor's layout.
template <typename T>
class OutputRows {
public:
    OutputRows(const Problem& problem, const Epilogue& epilogue, const Kernels<T>& kernels, const Arguments& arguments);

    /// What store() needs: the row itself, then a row of a residual operand.
    static int64_t scratch_elements(const IndexMap& map) { return 2 * map.axes[2].out_extent; }

    /// scratch: the row (n, channel, d, h) of sums, which is overwritten, then room for an operand's row.
    void store(int64_t n, int64_t channel, int64_t d, int64_t h, T* scratch) const;

private:
    void apply_epilogue(int64_t channel, int64_t offset, T* scratch) const;
    T channel_value(const void* data, int64_t channel) const;

    const Epilogue& epilogue_;
    const Kernels<T>& kernels_;
    const Arguments& arguments_;
    TensorView tensor_; ///< the output: dst or grad_src
    void* data_;
    const void* bias_;
    void* preactivation_;
};

} // namespace tconv3d::cpu
