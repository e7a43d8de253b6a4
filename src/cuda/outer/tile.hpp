#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/shared/outer.cuh"
#include "cuda/outer/taps.hpp"
#include "cuda/runtime/driver.hpp"
#include "cuda/tensorcore/tensor_map.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cuda {

/// What a CTA of kernels/outer.cuh owns, and how its work is divided.
struct OuterTile {
    bool rows_are_dst;       ///< whether the rows of products are channels of grad_dst, else of src
    int64_t columns;         ///< channels of the other tensor, which they divide
    int64_t taps;            ///< of a warpgroup
    int64_t height, width;   ///< src voxels of a box
    int64_t stages = 2;      ///< of boxes
    int64_t raw_stages = 0;  ///< raw boxes under way, in NCDHW
    int64_t splits = 1;      ///< of all boxes of all slices and images
    double microseconds = 0; ///< estimated, for the whole problem

    std::string str() const;

    /// Taps of a CTA.
    int64_t block_taps() const { return taps * OuterThreads::kConsumers / 128; }
    /// k steps of a box.
    int64_t steps() const { return height * width / 16; }
};

OuterPlane outer_src_plane(const Problem& problem, const OuterTile& tile);
OuterPlane outer_dst_plane(const Problem& problem, const OuterTile& tile);

/// Raw boxes, in NCDHW.
OuterRaw outer_src_raw(const Problem& problem, const OuterTile& tile);
OuterRaw outer_dst_raw(const Problem& problem, const OuterTile& tile);
/// Bytes that a raw box has room for; 0 in channels_last_3d.
int64_t outer_raw_box_bytes(const Problem& problem, const OuterTile& tile);

/// The most planes of grad_dst that a block of taps needs.
int64_t most_planes(const std::vector<OuterTapBlock>& blocks);
/// The most raw boxes of grad_dst that one needs: of each slice and phase along H one has planes.
int64_t most_raw_boxes(const std::vector<OuterTapBlock>& blocks);
/// Bytes of a stage with so many planes of grad_dst.
int64_t outer_stage_bytes(const Problem& problem, const OuterTile& tile, int64_t planes);
int64_t outer_shared_bytes(const Problem& problem, const OuterTile& tile);

/// CTAs of a split.
int64_t outer_items(const Problem& problem, const OuterTile& tile);
/// Boxes of all slices of all images.
int64_t outer_boxes(const Problem& problem, const OuterTile& tile);
OuterArguments outer_arguments(const Problem& problem, const OuterTile& tile);

/// What TMA sees of src, and of grad_dst.
tensorcore::MapShape outer_src_map(const Problem& problem, const OuterTile& tile);
tensorcore::MapShape outer_dst_map(const Problem& problem, const OuterTile& tile);

/// The tiles with the least estimated time, at most so many, the best first; none where no tile fits. Takes problems
/// that answer_outer does not refuse before.
std::vector<OuterTile> best_outer_tiles(const Problem& problem, const Device& device, size_t most);

} // namespace tconv3d::cuda
