#include "cuda/stream.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "cuda/epilogue_source.hpp"
#include "cuda/variants.hpp"

namespace tconv3d::cuda {

namespace {

constexpr int64_t kChannelStep = kStreamChannelStep;

/// kernels/stream.cuh's StreamArgs, byte for byte.
struct StreamArgs {
    const void* weights;
    int64_t dst_slice;
    int32_t batch, depth;
    int32_t dst_d, dst_h, dst_w;
    int32_t q_begin_d, q_end_d, q_begin_h, q_end_h, q_begin_w, q_end_w;
    int32_t tiles_h, tiles_w, segments, segment_length, co_tiles;
};

StreamArgs arguments_of(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
    const Extents dst = problem.dst();
    StreamArgs args{};
    args.dst_slice = dst[1] * dst[2];
    args.batch = narrow(problem.batch);
    args.depth = narrow(problem.src[0]);
    args.dst_d = narrow(dst[0]);
    args.dst_h = narrow(dst[1]);
    args.dst_w = narrow(dst[2]);
    args.q_begin_d = narrow(tables.q_begin[0]);
    args.q_end_d = narrow(tables.q_end[0]);
    args.q_begin_h = narrow(tables.q_begin[1]);
    args.q_end_h = narrow(tables.q_end[1]);
    args.q_begin_w = narrow(tables.q_begin[2]);
    args.q_end_w = narrow(tables.q_end[2]);
    args.tiles_h = narrow(cuts(tables.q_end[1] - tables.q_begin[1], tile.h));
    args.tiles_w = narrow(cuts(tables.q_end[2] - tables.q_begin[2], tile.w));
    args.segments = narrow(tile.segments);
    args.segment_length = narrow(tile.segment_length);
    args.co_tiles = narrow(cuts(problem.dst_channels_per_group(), tile.dst_channels));
    return args;
}

/// The tensor map of src: boxes of a plane's tile × the channels of a stage, rounded to tf32 as they are copied.
TensorMap map_of(const Problem& problem, const StreamTile& tile, const void* src) {
    const auto wide = [](int64_t value) { return static_cast<uint64_t>(value); };
    const uint64_t extents[] = {wide(problem.src[2]), wide(problem.src[1]), wide(problem.src[0]),
                                wide(problem.src_channels), wide(problem.batch)};
    uint64_t strides[4];
    uint64_t bytes = sizeof(float);
    for (size_t i = 0; i < 4; ++i) strides[i] = bytes *= extents[i];
    const uint32_t box[] = {static_cast<uint32_t>(tile.plane_pitch), static_cast<uint32_t>(tile.plane_rows), 1,
                            static_cast<uint32_t>(kChannelStep), 1};
    const uint32_t element_strides[] = {1, 1, 1, 1, 1};
    TensorMap map;
    check(driver().cuTensorMapEncodeTiled(&map, kTensorMapTFloat32, 5, const_cast<void*>(src), extents, strides, box,
                                          element_strides, kTensorMapInterleaveNone, kTensorMapSwizzleNone,
                                          kTensorMapPromote128, kTensorMapFillZero),
          "cuTensorMapEncodeTiled");
    return map;
}

class StreamKernel final : public Kernel {
public:
    StreamKernel(const Problem& problem, const Epilogue& epilogue, const Device& device)
        : problem_(problem), epilogue_(epilogue), device_(device), tables_(problem),
          tile_(choose_stream_tile(problem, tables_, device.multiprocessors, device.shared_memory_per_block)),
          args_(arguments_of(problem, tables_, tile_)), pack_(stream_pack_request(problem, tables_, tile_)),
          variants_(device, every_variant([&](bool has_bias, bool saves_preactivation) {
                        return stream_request(problem, tables_, tile_, epilogue, has_bias, saves_preactivation);
                    })) {}

    size_t workspace_bytes() const override {
        return static_cast<size_t>(stream_packed_elements(problem_, tables_, tile_)) * 4;
    }

    void load(const Arguments& arguments, void* stream) const override {
        function(device_, pack_, stream);
        variants_.get(arguments, stream);
    }

    void execute(const Arguments& arguments, void* stream, void* workspace) const override {
        pack(arguments.weight, stream, workspace);
        StreamArgs args = args_;
        args.weights = workspace;
        TensorMap map = map_of(problem_, tile_, arguments.src);
        std::vector<const void*> output = output_argument(epilogue_, arguments);
        std::array<void*, 3> kernel_arguments = {&map, &args, static_cast<void*>(output.data())};
        const int64_t items =
            problem_.batch * problem_.groups * args.co_tiles * args.tiles_h * args.tiles_w * args.segments;
        launch(variants_.get(arguments, stream), {std::min<int64_t>(items, device_.multiprocessors)},
               {(kStreamConsumers + 1) * 128}, kernel_arguments.data(), stream);
    }

    std::string describe() const override { return "wgmma streamed along d: " + tile_.str(); }

private:
    void pack(const void* weight, void* stream, void* packed) const {
        constexpr int64_t kThreads = 256;
        std::array<void*, 2> kernel_arguments = {static_cast<void*>(&weight), static_cast<void*>(&packed)};
        launch(function(device_, pack_, stream), {cuts(stream_packed_elements(problem_, tables_, tile_), kThreads)},
               {kThreads}, kernel_arguments.data(), stream);
    }

    Problem problem_;
    Epilogue epilogue_;
    Device device_;
    StreamTables tables_;
    StreamTile tile_;
    StreamArgs args_;
    KernelRequest pack_;
    Variants variants_;
};

/// Why the copy engine or 32-bit coordinates cannot serve the problem; empty when they can.
std::string reject_extents(const Problem& problem) {
    const Extents dst = problem.dst();
    constexpr int64_t kLimit = int64_t{1} << 30;
    if (problem.src[2] % 4 != 0) {
        return "TMA needs rows of a multiple of 16 bytes, got " + std::to_string(problem.src[2] * 4);
    }
    if (problem.groups > 1 && problem.src_channels_per_group() % kChannelStep != 0) {
        return "groups need a multiple of 8 channels each, got " + std::to_string(problem.src_channels_per_group());
    }
    if (dst[1] * dst[2] >= kLimit || dst[0] >= kLimit || problem.batch >= kLimit) {
        return "takes output slices of fewer than 2^30 voxels, got " + str(dst);
    }
    if (problem.stride[0] * problem.stride[1] * problem.stride[2] > 64) {
        return "takes at most 64 phases, got stride " + str(problem.stride);
    }
    return "";
}

} // namespace

std::string reject_stream(const Problem& problem, const Epilogue&, const Device& device) {
    if (device.sm != 90) {
        return "wgmma needs compute capability 9.0, got " + std::to_string(device.sm / 10) + "." +
               std::to_string(device.sm % 10);
    }
    if (problem.direction != Direction::fwd) return std::string("takes fwd, got ") + name(problem.direction);
    if (problem.dtype != DType::f32 || problem.math != MathMode::tf32) {
        return std::string("takes f32 in tf32 math, got ") + name(problem.dtype) + " in " + name(problem.math);
    }
    if (problem.layout != Layout::ncdhw) return std::string("takes ncdhw, got ") + name(problem.layout);
    std::string reason = reject_extents(problem);
    if (!reason.empty()) return reason;
    const StreamTables tables(problem);
    const StreamTile tile = choose_stream_tile(problem, tables, device.multiprocessors, device.shared_memory_per_block);
    return tile.clocks > 0 ? "" : "no tile fits into shared memory and registers";
}

double stream_cost(const Problem& problem, const Epilogue&, const Device& device) {
    const StreamTables tables(problem);
    constexpr double kClocksPerMicrosecond = 1755, kLaunches = 10;
    return kLaunches +
           choose_stream_tile(problem, tables, device.multiprocessors, device.shared_memory_per_block).clocks /
               kClocksPerMicrosecond;
}

std::unique_ptr<Kernel> prepare_stream(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    return std::make_unique<StreamKernel>(problem, epilogue, device);
}

} // namespace tconv3d::cuda
