#include "cuda/tensorcore/shifts.hpp"

#include <algorithm>

namespace tconv3d::cuda::tensorcore {

namespace {

ShiftedRow row_of(const TapTables& tables, const PlaneShift& shift) {
    return {shift.plane, shift.shift_h - tables.plane.first_shift_h()};
}

} // namespace

std::vector<ShiftedRow> shifted_rows(const TapTables& tables, const Config& config) {
    if (!config.any_size()) return {{0, 0}};
    std::vector<ShiftedRow> rows;
    for (const PlaneShift& shift : tables.plane.shifts) {
        const ShiftedRow row = row_of(tables, shift);
        if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
    }
    return rows;
}

ProductShift product_shift(const TapTables& tables, const Config& config, const PlaneShift& shift) {
    const ShiftedRow row = row_of(tables, shift);
    const int64_t column = shift.shift_w - tables.shift_min[2];
    if (!config.any_size()) return {0, row.plane * config.plane.plane_pitch + row.row * config.row_pitch() + column};
    const std::vector<ShiftedRow> rows = shifted_rows(tables, config);
    return {std::find(rows.begin(), rows.end(), row) - rows.begin(), column};
}

ShiftedRow pass_shift(const TapTables& tables, const Pass& pass) {
    return {pass.plane, pass.shift_h + tables.plane.first_shift_h() - tables.shift_min[1]};
}

} // namespace tconv3d::cuda::tensorcore
