#pragma once

#include <cstdint>
#include <vector>

#include "tconv3d/problem.hpp"

/// Where taps find what src meets, in the outer form.
namespace tconv3d::cuda {

/// A plane of grad_dst: every stride-th voxel along H and W of a slice.
struct OuterDstPlane {
    Extents first; ///< the voxel of grad_dst, maybe outside of it, with which the plane of voxel 0 of src begins
};

/// A tap, by its number in the weight. Voxel 0 of src meets voxel (h, w) of a plane through it.
struct OuterTap {
    int64_t number;
    int64_t plane; ///< of its block
    int64_t h, w;
};

/// Taps that a CTA has, and the planes that these need.
struct OuterTapBlock {
    std::vector<OuterDstPlane> planes;
    std::vector<OuterTap> taps;
};

/// What a plane has along H and W beyond the voxels of a box: the greatest distance between two taps of one phase.
struct OuterHalo {
    int64_t h, w;
};
OuterHalo outer_halo(const Problem& problem);

/// All taps, those of a plane one after another, in blocks of so many; the last one may have fewer.
std::vector<OuterTapBlock> outer_tap_blocks(const Problem& problem, int64_t block_taps);

} // namespace tconv3d::cuda
