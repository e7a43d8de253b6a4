#pragma once

#include "cuda/tensorcore/config.hpp"

/// How a tile of the streamed kernels lies in shared memory. Each part sets fields of the tile, and says whether it can
/// be so.
namespace tconv3d::cuda {

bool stream_is_16_bit(const Problem& problem);

/// The copy engine takes rows of a multiple of 16 bytes.
StreamSource choose_stream_source(const Problem& problem, StreamEngine engine);

/// Has the copy engine bring planes whole, or rows of them, where the tile has these.
void set_stream_runs(StreamTile& tile, const Problem& problem, const StreamTables& tables);

/// Voxels that are stored at once, and so have to lie in one row of a tile.
int64_t stream_stored_voxels(const StreamTile& tile);

/// Rows and pitch of a staged plane. Columns that are stored at once belong together; images that the copy engine
/// brings one by one want full cores.
bool set_stream_plane(StreamTile& tile, const StreamTables& tables);

/// Src as the copy engine brings it, where warps arrange it.
bool set_stream_raw(StreamTile& tile, const Problem& problem);

/// With the tile's stages of src and groups of taps: three stages of weights or more.
bool set_weight_stages(StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t shared_limit);

/// As few groups of taps as leave room for three stages of weights beside two or three of src.
bool set_stream_stages(StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t shared_limit);

/// All weights of a tile's output channels, which its CTA packs for itself, and two or more stages of src.
bool set_stream_own_weights(StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t shared_limit);

/// Has the outputs go through shared memory, if the tile has whole rows: they lie up to 15 bytes behind the start of a
/// channel's bytes, and the channels of a buffer in other banks.
bool set_stream_staged(StreamTile& tile, const Problem& problem, const StreamTables& tables);

} // namespace tconv3d::cuda
