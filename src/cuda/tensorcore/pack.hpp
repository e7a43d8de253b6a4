#pragma once

#include "cuda/runtime/jit.hpp"
#include "cuda/tensorcore/config.hpp"

/// The kernel that packs the weight (kernels/pack_weights.cuh).
namespace tconv3d::cuda::tensorcore {

/// What a CTA packs.
struct PackParcel {
    int64_t channels; ///< of the output
    int64_t steps;    ///< k steps of the input
    int64_t taps_d;   ///< with all taps (h, w) of each
    int64_t shared_bytes;
    int64_t count; ///< of such parcels in the weight
};
PackParcel pack_parcel(const Problem& problem, const Config& config, const Device& device);

/// CTAs that pack: for each parcel as many as give every multiprocessor some.
constexpr int64_t kPackThreads = 256;
Dim3 pack_grid(const PackParcel& parcel, int64_t packed_words, const Device& device);

KernelRequest pack_request(const Problem& problem, const TapTables& tables, const Config& config,
                           const PackParcel& parcel);

} // namespace tconv3d::cuda::tensorcore
