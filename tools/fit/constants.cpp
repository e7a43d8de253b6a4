#include "fit/constants.hpp"

namespace tconv3d::fit {

using namespace cuda::tensorcore;

namespace {

using Constants = std::vector<Constant>;

void append(Constants& all, const std::string& part, const Constants& fields) {
    for (const Constant& field : fields) all.push_back({part + "." + field.name, field.value});
}

Constants fields(InputCost& cost) {
    return {{"core_row", &cost.core_row}, {"lost", &cost.lost}, {"raw_row", &cost.raw_row}, {"wait", &cost.wait}};
}

Constants fields(ProductCost& cost) {
    return {{"column", &cost.column},
            {"operand", &cost.operand},
            {"operand_column", &cost.operand_column},
            {"split", &cost.split},
            {"mma", &cost.mma},
            {"bytes_per_clock", &cost.bytes_per_clock},
            {"group", &cost.group},
            {"group_step", &cost.group_step},
            {"split_step", &cost.split_step},
            {"buffer", &cost.buffer},
            {"split_buffer", &cost.split_buffer}};
}

Constants fields(StoreCost& cost) {
    return {{"bytes_per_clock", &cost.bytes_per_clock},
            {"output", &cost.output},
            {"barrier", &cost.barrier},
            {"channels", &cost.channels},
            {"channel_bytes", &cost.channel_bytes},
            {"bulk_rows", &cost.bulk_rows},
            {"unaligned", &cost.unaligned},
            {"block_bytes", &cost.block_bytes},
            {"cut_rows", &cost.cut_rows},
            {"odd_pitch", &cost.odd_pitch},
            {"rows_apart", &cost.rows_apart}};
}

Constants fields(PackCost& cost) {
    return {{"launch", &cost.launch},
            {"byte", &cost.byte},
            {"channels_last_byte", &cost.channels_last_byte},
            {"wait", &cost.wait},
            {"own_byte", &cost.own_byte},
            {"own_byte_16_bit", &cost.own_byte_16_bit},
            {"own_byte_channels_last", &cost.own_byte_channels_last}};
}

Constants fields(GatheredInputCost& cost) {
    return {{"global_row", &cost.global_row},
            {"global_wait", &cost.global_wait},
            {"range_row", &cost.range_row},
            {"half_range_row", &cost.half_range_row},
            {"swizzled_row", &cost.swizzled_row},
            {"swizzled_wait", &cost.swizzled_wait},
            {"halves_row", &cost.halves_row},
            {"floats_row", &cost.floats_row},
            {"apart", &cost.apart},
            {"more_warps", &cost.more_warps},
            {"wait", &cost.wait},
            {"two_stages_wait", &cost.two_stages_wait},
            {"retained_wait", &cost.retained_wait},
            {"one_raw_stage_wait", &cost.one_raw_stage_wait}};
}

Constants fields(GatheredProductCost& cost) {
    return {{"column", &cost.column},
            {"product", &cost.product},
            {"stage", &cost.stage},
            {"group", &cost.group},
            {"latency", &cost.latency},
            {"busy_latency", &cost.busy_latency},
            {"weight_byte", &cost.weight_byte},
            {"bytes_per_clock", &cost.bytes_per_clock}};
}

Constants fields(GatheredStoreCost& cost) {
    return {{"channels", &cost.channels},
            {"channels_byte", &cost.channels_byte},
            {"channels_stride_1", &cost.channels_stride_1},
            {"channels_stride_1_byte", &cost.channels_stride_1_byte},
            {"vectors", &cost.vectors},
            {"vectors_byte", &cost.vectors_byte},
            {"vectors_stride_1", &cost.vectors_stride_1},
            {"vectors_stride_1_byte", &cost.vectors_stride_1_byte},
            {"voxels", &cost.voxels},
            {"bulk_rows", &cost.bulk_rows},
            {"seamed_rows", &cost.seamed_rows},
            {"seamed_rows_byte", &cost.seamed_rows_byte},
            {"warp_rows", &cost.warp_rows},
            {"warp_rows_byte", &cost.warp_rows_byte}};
}

} // namespace

Constants constants(StreamedModel& model) {
    Constants all;
    append(all, "swizzled", fields(model.input.swizzled));
    append(all, "global", fields(model.input.global));
    append(all, "core_matrices", fields(model.input.core_matrices));
    append(all, "ranges", fields(model.input.ranges));
    append(all, "half_ranges", fields(model.input.half_ranges));
    append(all, "halves", fields(model.input.halves));
    append(all, "split", fields(model.input.split));
    append(all, "tf32_rows", fields(model.input.tf32_rows));
    append(all, "tf32_planes", fields(model.input.tf32_planes));
    append(all, "product", fields(model.product));
    append(all, "store", fields(model.store));
    append(all, "pack", fields(model.pack));
    all.insert(all.end(), {{"apart", &model.input.apart},
                           {"more_warps", &model.input.more_warps},
                           {"overlap", &model.overlap},
                           {"cut_tile", &model.cut_tile},
                           {"flat_tile", &model.flat_tile}});
    return all;
}

Constants constants(GatheredModel& model) {
    Constants all;
    append(all, "input", fields(model.input));
    append(all, "product", fields(model.product));
    append(all, "store", fields(model.store));
    all.insert(all.end(), {{"slice", &model.slice},
                           {"seam", &model.seam},
                           {"overlap", &model.overlap},
                           {"cut_channels_last", &model.cut_channels_last},
                           {"cut_rows", &model.cut_rows},
                           {"cut_warp_rows", &model.cut_warp_rows},
                           {"alone", &model.alone},
                           {"alone_channels_last", &model.alone_channels_last},
                           {"alone_bulk_rows", &model.alone_bulk_rows},
                           {"alone_seamed_rows", &model.alone_seamed_rows},
                           {"launch", &model.launch},
                           {"packed_byte", &model.packed_byte}});
    return all;
}

} // namespace tconv3d::fit
