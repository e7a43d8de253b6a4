#include "pack_weights.hpp"

#include <algorithm>

#include "../core/half.hpp"

namespace tconv3d::cpu {

PackedWeights::PackedWeights(const WeightView& view, int64_t in_block, int64_t out_block)
    : view_(view), in_block_(in_block), out_block_(out_block) {}

int64_t PackedWeights::elements() const {
    return view_.groups * view_.in_channels * view_.out_channels * view_.taps;
}

int64_t PackedWeights::out_width(int64_t out_first) const {
    return std::min(out_block_, view_.out_channels - out_first);
}

int64_t PackedWeights::in_width(int64_t in_first) const {
    return std::min(in_block_, view_.in_channels - in_first);
}

int64_t PackedWeights::offset(int64_t group, int64_t out_first, int64_t in_first, int64_t first_tap) const {
    const int64_t outs_before = group * view_.out_channels + out_first;
    const int64_t out = out_width(out_first);
    return view_.taps * (outs_before * view_.in_channels + out * in_first) + first_tap * in_width(in_first) * out;
}

namespace {

/// Copies the block [inputs][outputs][taps] of one register block into the packed order. An input's part of the weight
/// is read whole before the next: a weight of many channels passes through the cache once.
template <typename T, typename Storage>
void pack_block(const WeightView& view, const Storage* first, const std::vector<SlabPhase>& phases, int64_t ins,
                int64_t outs, T* packed) {
    for (int64_t in = 0; in < ins; ++in) {
        const Storage* from = first + in * view.in_stride;
        T* to = packed + in * outs;
        for (const SlabPhase& phase : phases) {
            for (const SlabTap& tap : phase.taps) {
                for (int64_t out = 0; out < outs; ++out) {
                    to[out] = static_cast<T>(load(from[out * view.out_stride + tap.index]));
                }
                to += ins * outs;
            }
        }
    }
}

} // namespace

template <typename T>
void PackedWeights::pack(const std::vector<SlabPhase>& phases, Executor& executor, T* packed) const {
    const int64_t blocks = (view_.out_channels + out_block_ - 1) / out_block_;
    const auto pack_from = [&](const auto* elements) {
        executor.run(view_.groups * blocks, [&](int64_t task, int) {
            const int64_t group = task / blocks, out = task % blocks * out_block_;
            const int64_t group_first = group * view_.in_channels * view_.out_channels * view_.taps;
            for (int64_t in = 0; in < view_.in_channels; in += in_block_) {
                pack_block(view_, elements + group_first + out * view_.out_stride + in * view_.in_stride, phases,
                           in_width(in), out_width(out), packed + offset(group, out, in, 0));
            }
        });
    };
    switch (view_.dtype) {
    case DType::f32:
        return pack_from(static_cast<const float*>(view_.data));
    case DType::f64:
        return pack_from(static_cast<const double*>(view_.data));
    case DType::bf16:
        return pack_from(static_cast<const BFloat16*>(view_.data));
    case DType::f16:
        return pack_from(static_cast<const Float16*>(view_.data));
    }
}

template void PackedWeights::pack<float>(const std::vector<SlabPhase>&, Executor&, float*) const;
template void PackedWeights::pack<double>(const std::vector<SlabPhase>&, Executor&, double*) const;

} // namespace tconv3d::cpu
