#pragma once

#include <vector>

#include "cuda/tensorcore/config.hpp"

/// How a config lies in shared memory. Each function sets some parts of it, and says whether it can be so.
namespace tconv3d::cuda::tensorcore {

/// The source of a config before its tile is known. TMA takes rows of a multiple of 16 bytes.
Source choose_source(const Problem& problem, Engine engine);

/// How many warps may rearrange the input of a config with its source: two, or six where that is worth trying. In
/// bwd_data the input is the larger tensor, and is de-interleaved.
std::vector<int64_t> rearranging_warps(const Problem& problem, const Config& config);

/// Whether six warps that rearrange would have too few registers each: for loads from global memory.
bool needs_registers_to_rearrange(const Config& config);

/// Has TMA bring planes whole, or several rows of them in one box, where the tile has these.
void set_boxes(Config& config, const Problem& problem, const TapTables& tables);

/// Sets the room for positions and where input planes begin. In each input plane `loaded` positions are loaded, and
/// `read` positions from its first one on are read.
void set_positions(Config& config, const TapTables& tables, int64_t loaded, int64_t read);

/// Voxels of the streamed form that are stored at once, and so have to lie in one row of a tile.
int64_t stored_voxels(const Config& config);

/// Sets rows and pitch of a staged plane of the streamed form. Columns that are stored at once belong together; images
/// that TMA brings one by one want full core matrices.
bool set_streamed_plane(Config& config, const TapTables& tables);

/// Sets the raw stages: the input as TMA brings it, where warps rearrange it.
bool set_raw(Config& config, const Problem& problem, const TapTables& tables);

/// Whether TMA takes the rows and columns of a staged plane as one box.
bool fits_box(const Config& config, const TapTables& tables);

/// Sets stages of weights beside the stages of input and the tap groups that the config has: three or more.
bool set_weight_stages(Config& config, const Problem& problem, const TapTables& tables, int64_t shared_limit);

/// Sets all stages, with as few tap groups as leave room for three stages of weights beside two or three of input.
bool set_stages(Config& config, const Problem& problem, const TapTables& tables, int64_t shared_limit);

/// Sets room for all weights of a tile's output channels, which its CTA packs for itself, and two or more stages of
/// input.
bool set_own_weights(Config& config, const Problem& problem, const TapTables& tables, int64_t shared_limit);

/// Has the outputs of the streamed form pass through shared memory, if the tile has whole rows.
bool set_bulk_rows(Config& config, const Problem& problem, const TapTables& tables);

/// Bytes of the table that tells where the outputs of the gathered form belong.
int64_t vector_offset_bytes(const Config& config, const TapTables& tables);

} // namespace tconv3d::cuda::tensorcore
