#pragma once

#include <vector>

#include "cuda/tensorcore/config.hpp"

/// By how many positions the products and passes of a config read further on than the first position of a tile. All of
/// it is constants where the pitches are; a kernel for any size adds what goes by rows and input planes.
namespace tconv3d::cuda::tensorcore {

/// Whole input planes and rows by which a product or a pass reads further on.
struct ShiftedRow {
    int64_t plane;
    int64_t row;

    bool operator==(const ShiftedRow& other) const { return plane == other.plane && row == other.row; }
};

/// The shift of a product: the index of a shifted row, and positions behind it.
struct ProductShift {
    int64_t row;
    int64_t positions;
};

/// The shifted rows that the products of a pass read. Where all shifts are constants there is one, of no rows.
std::vector<ShiftedRow> shifted_rows(const TapTables& tables, const Config& config);

ProductShift product_shift(const TapTables& tables, const Config& config, const PlaneShift& shift);

/// The shift of a pass.
ShiftedRow pass_shift(const TapTables& tables, const Pass& pass);

} // namespace tconv3d::cuda::tensorcore
