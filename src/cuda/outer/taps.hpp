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

    /// In NCDHW: of the planes that one raw box is made into, the first one and the one behind the last. They differ
    /// along W alone.
    struct RawBox {
        size_t begin, end;
    };
    std::vector<RawBox> raw_boxes() const;
};

/// In NCDHW planes are made of raw boxes, which have all voxels of a row.
struct OuterRawRows {
    int64_t first; ///< the voxel of grad_dst with which a row begins for voxel 0 of src, a multiple of 8
    int64_t width; ///< voxels; an odd multiple of 8
    std::vector<int64_t> phase_first; ///< of each phase along W, the voxel with which its planes begin
};
OuterRawRows outer_raw_rows(const Problem& problem, int64_t box_width);
/// As many voxels, rounded up to an odd multiple of 8.
int64_t odd_eights(int64_t voxels);

/// What a plane has along H and W beyond the voxels of a box: the greatest distance between two taps of one phase.
struct OuterHalo {
    int64_t h, w;
};
OuterHalo outer_halo(const Problem& problem);

/// The phase along W whose voxels a plane has.
size_t outer_phase(const Problem& problem, const OuterDstPlane& plane);

/// All taps, those of a plane one after another, in blocks of so many; the last one may have fewer.
std::vector<OuterTapBlock> outer_tap_blocks(const Problem& problem, int64_t block_taps);

} // namespace tconv3d::cuda
