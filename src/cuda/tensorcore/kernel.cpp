#include "cuda/tensorcore/config.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <vector>

#include "cuda/source/output_source.hpp"
#include "cuda/source/specializations.hpp"

namespace tconv3d::cuda {

namespace {

/// fp32 is rounded to tf32 while it is copied, unless it is to be split.
int map_type(const Problem& problem) {
    if (problem.dtype == DType::bf16) return kTensorMapBFloat16;
    if (problem.dtype == DType::f16) return kTensorMapFloat16;
    return stream_parts(problem) == 2 ? kTensorMapFloat32 : kTensorMapTFloat32;
}

int map_swizzle(int64_t row_bytes) {
    if (row_bytes == 0) return kTensorMapSwizzleNone;
    return row_bytes == 128 ? kTensorMapSwizzle128 : row_bytes == 64 ? kTensorMapSwizzle64 : kTensorMapSwizzle32;
}

TensorMap map_of(const Problem& problem, const StreamTile& tile, const void* src) {
    const StreamMapShape shape = stream_map_shape(problem, tile);
    uint64_t extents[5], strides[4];
    uint32_t box[5];
    const uint32_t element_strides[] = {1, 1, 1, 1, 1};
    for (size_t i = 0; i < 5; ++i) {
        extents[i] = static_cast<uint64_t>(shape.extents[i]);
        box[i] = static_cast<uint32_t>(shape.box[i]);
        if (i > 0) strides[i - 1] = static_cast<uint64_t>(shape.strides[i] * bytes_per_element(problem.dtype));
    }
    TensorMap map;
    check(driver().cuTensorMapEncodeTiled(&map, map_type(problem), 5, const_cast<void*>(src), extents, strides, box,
                                          element_strides, kTensorMapInterleaveNone, map_swizzle(shape.swizzle),
                                          kTensorMapPromote128, kTensorMapFillZero),
          "cuTensorMapEncodeTiled");
    return map;
}

class StreamKernel final : public Kernel {
public:
    StreamKernel(const Problem& problem, const Epilogue& epilogue, const Device& device, const StreamChoice& choice)
        : problem_(problem), epilogue_(epilogue), device_(device), tables_(choice.tables), tile_(choice.tile),
          args_(stream_arguments(problem, tables_, tile_)), packed_words_(stream_packed_words(problem, tables_, tile_)),
          parcels_(stream_pack(problem, tile_, device)), pack_grid_(stream_pack_grid(parcels_, packed_words_, device)),
          pack_(device, [this] { return stream_pack_request(problem_, tables_, tile_, parcels_); }),
          variants_(device, [this](bool has_bias, bool saves_preactivation) {
              return stream_request(problem_, tables_, tile_, epilogue_, has_bias, saves_preactivation);
          }) {}

    size_t workspace_bytes() const override { return static_cast<size_t>(packed_words_) * 4; }

    /// Both kernels side by side: each is compiled for a while when it is new.
    void load(const Arguments& arguments, void* stream) const override {
        std::future<void> packing;
        if (!tile_.own_weights && !pack_.is_loaded()) packing = std::async([&] { pack_.get(stream); });
        variants_.get(arguments, stream);
        if (packing.valid()) packing.get();
    }

    void execute(const Arguments& arguments, void* stream, void* workspace) const override {
        if (!tile_.own_weights) pack(arguments, stream, workspace);
        StreamArgs args = args_;
        args.weights = tile_.own_weights ? arguments.weight : workspace;
        args.weight_channels_last = arguments.weight_channels_last ? 1 : 0;
        args.src = arguments.src;
        TensorMap map{};
        if (tile_.source != StreamSource::global) map = map_of(problem_, tile_, arguments.src);
        std::vector<const void*> output = output_argument(epilogue_, arguments);
        std::array<void*, 3> kernel_arguments = {&map, &args, static_cast<void*>(output.data())};
        launch(variants_.get(arguments, stream), {tile_.ctas}, {tile_.threads()}, kernel_arguments.data(), stream,
               device_.sm >= 90 && !tile_.own_weights ? Start::beside : Start::after);
    }

    bool takes_channels_last_weight() const override { return true; }

    std::string describe() const override {
        return std::string(tile_.engine == StreamEngine::wgmma ? "wgmma" : "mma.sync") +
               (tile_.gathered ? " gathered along d: " : " streamed along d: ") + StreamChoice{tables_, tile_}.name() +
               "; " + tile_.work();
    }

private:
    void pack(const Arguments& arguments, void* stream, void* packed) const {
        const void* weight = arguments.weight;
        int32_t channels_last = arguments.weight_channels_last ? 1 : 0;
        std::array<void*, 3> kernel_arguments = {static_cast<void*>(&weight), static_cast<void*>(&channels_last),
                                                 static_cast<void*>(&packed)};
        launch(pack_.get(stream), pack_grid_, {kStreamPackThreads}, kernel_arguments.data(), stream);
    }

    Problem problem_;
    Epilogue epilogue_;
    Device device_;
    StreamTables tables_;
    StreamTile tile_;
    StreamArgs args_;
    int64_t packed_words_;
    StreamPack parcels_;
    Dim3 pack_grid_;
    LoadedFunction pack_;
    Variants variants_;
};

/// Why 32-bit coordinates or unrolled phases cannot serve the problem; empty when they can.
std::string reject_extents(const Problem& problem) {
    const Extents dst = problem.dst();
    constexpr int64_t kLimit = int64_t{1} << 30;
    if (dst[1] * dst[2] >= kLimit || dst[0] >= kLimit || problem.src[1] * problem.src[2] >= kLimit ||
        problem.src[0] * problem.batch >= kLimit) {
        return "takes slices of fewer than 2^30 voxels, got " + str(problem.src) + " to " + str(dst);
    }
    const int64_t neighbours = problem.channels_last() ? problem.dst_channels : 1;
    if (dst[1] * dst[2] * neighbours >= int64_t{1} << 31) {
        return "takes slices of fewer than 2^31 outputs, got " + str(dst) + " of " + std::to_string(neighbours) +
               " channels";
    }
    constexpr int64_t kMostTaps = 92; // those of one k step and 32 channels are less than 99 KiB of shared memory
    if (problem.kernel[1] * problem.kernel[2] > kMostTaps) {
        return "takes at most " + std::to_string(kMostTaps) + " taps in a plane, got kernel " + str(problem.kernel);
    }
    constexpr int64_t kMostPhases = 64;
    const Extents& stride = problem.stride;
    if (std::max({stride[0], stride[1], stride[2]}) > kMostPhases || stride[0] * stride[1] * stride[2] > kMostPhases) {
        return "takes at most 64 phases, got stride " + str(stride);
    }
    return "";
}

/// Products that make up an output, on average.
double products_of_output(const Problem& problem) {
    return static_cast<double>(problem.src_channels_per_group() * problem.taps()) /
           static_cast<double>(problem.stride[0] * problem.stride[1] * problem.stride[2]);
}

/// Each product of split fp32 lacks its last bits. In long sums the rounding of every sum hides that.
std::string reject_accuracy(const Problem& problem) {
    constexpr double kFewestProducts = 64;
    const double products = products_of_output(problem);
    if (stream_parts(problem) == 1 || products >= kFewestProducts) return "";
    return "f32 in parts would be less accurate than PyTorch in sums of fewer than 64 products, got " +
           std::to_string(static_cast<int64_t>(products));
}

std::string reject(const Problem& problem, const Device& device, StreamEngine engine, StreamForm form) {
    if (problem.direction != Direction::fwd) return std::string("takes fwd, got ") + name(problem.direction);
    if (problem.dtype == DType::f64) return "tensor cores take f32, bf16 and f16, got f64";
    std::string reason = reject_extents(problem);
    if (reason.empty()) reason = reject_accuracy(problem);
    if (!reason.empty()) return reason;
    const auto [tables, tile] = choose_stream(problem, device, engine, form);
    if (form == StreamForm::gather) reason = reject_gathered(problem, tables);
    if (!reason.empty()) return reason;
    if (tile.clocks <= 0) return "no tile fits into shared memory and registers";
    const int64_t items = stream_items(problem, tables, tile);
    return items < int64_t{1} << 30 ? "" : "takes fewer than 2^30 work items, got " + std::to_string(items);
}

/// Microseconds.
double cost(const Problem& problem, const Device& device, StreamEngine engine, StreamForm form) {
    constexpr double kClocksPerMicrosecond = 1755, kLaunch = 3;
    return kLaunch + choose_stream(problem, device, engine, form).tile.clocks / kClocksPerMicrosecond;
}

std::vector<std::string> variants(const Problem& problem, const Device& device, StreamEngine engine, StreamForm form) {
    std::vector<std::string> names;
    for (const StreamChoice& candidate : stream_candidates(problem, device, engine, form))
        names.push_back(candidate.name());
    return names;
}

std::unique_ptr<Kernel> prepare(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                StreamEngine engine, StreamForm form, const std::string& variant) {
    return std::make_unique<StreamKernel>(problem, epilogue, device,
                                          find_stream(problem, device, engine, form, variant));
}

std::string capability(const Device& device) {
    return std::to_string(device.sm / 10) + "." + std::to_string(device.sm % 10);
}

} // namespace

StreamArgs stream_arguments(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
    const Extents dst = problem.dst();
    StreamArgs args{};
    args.dst_slice = dst[1] * dst[2];
    args.batch = narrow(problem.batch);
    args.depth = narrow(problem.src[0] / tile.slices);
    args.src_h = narrow(problem.src[1]);
    args.src_w = narrow(problem.src[2]);
    args.dst_d = narrow(dst[0]);
    args.dst_h = narrow(dst[1]);
    args.dst_w = narrow(dst[2]);
    args.q_end_d = narrow(stream_depth(tables, tile));
    args.tiles_h = narrow(cuts(tables.q_end[1], tile.h));
    args.tiles_w = narrow(cuts(tables.q_end[2], tile.w));
    args.co_tiles = narrow(cuts(problem.dst_channels_per_group(), tile.dst_channels));
    args.whole_items = narrow(tile.whole_items);
    args.rest = narrow((stream_items(problem, tables, tile) - tile.whole_items) * stream_depth(tables, tile));
    args.share = narrow(tile.share);
    return args;
}

StreamMapShape stream_map_shape(const Problem& problem, const StreamTile& tile) {
    const int64_t step = stream_channel_step(problem), channels = problem.src_channels_per_group();
    const int64_t h = problem.src[1], w = problem.src[2], plane = h * w, volume = problem.src[0] * plane;
    if (problem.channels_last()) {
        const int64_t voxel = problem.src_channels;
        const bool swizzled = tile.source == StreamSource::channels;
        const int64_t together = swizzled ? tile.steps * step : step / 2;
        const int64_t swizzle = swizzled ? tile.position_bytes() : 0;
        if (tile.interleaved && tile.images > 1)
            return {{channels, w, problem.batch, h, problem.src[0]},
                    {1, voxel, volume * voxel, w * voxel, plane * voxel},
                    {together, tile.pitch, tile.images, tile.rows, 1},
                    swizzle};
        return {{channels, problem.groups, w, h, problem.src[0] * problem.batch},
                {1, channels, voxel, w * voxel, plane * voxel},
                {together, 1, tile.pitch, tile.rows, 1},
                swizzle};
    }
    const bool runs = tile.source == StreamSource::runs, whole = tile.source == StreamSource::whole || runs;
    return {
        {whole ? plane : w, channels, whole ? 1 : h, problem.src[0], problem.batch * problem.groups},
        {1, volume, whole ? plane : w, plane, channels * volume},
        {tile.raw_pitch, tile.steps * step, whole ? 1 : tile.rows, tile.slices, runs ? 1 : tile.images / tile.slices},
        0};
}

int64_t stream_raw_bytes(const Problem& problem, const StreamTile& tile) {
    int64_t bytes = bytes_per_element(problem.dtype);
    if (tile.source == StreamSource::runs) bytes *= tile.images * tile.run_boxes;
    for (const int64_t extent : stream_map_shape(problem, tile).box) bytes *= extent;
    return bytes;
}

std::string reject_stream(const Problem& problem, const Epilogue&, const Device& device) {
    if (device.sm != 90) return "wgmma needs compute capability 9.0, got " + capability(device);
    return reject(problem, device, StreamEngine::wgmma, StreamForm::scatter);
}

double stream_cost(const Problem& problem, const Epilogue&, const Device& device) {
    return cost(problem, device, StreamEngine::wgmma, StreamForm::scatter);
}

std::vector<std::string> stream_variants(const Problem& problem, const Epilogue&, const Device& device) {
    return variants(problem, device, StreamEngine::wgmma, StreamForm::scatter);
}

std::unique_ptr<Kernel> prepare_stream(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                       const std::string& variant) {
    return prepare(problem, epilogue, device, StreamEngine::wgmma, StreamForm::scatter, variant);
}

std::string reject_gather(const Problem& problem, const Epilogue&, const Device& device) {
    if (device.sm != 90) return "wgmma needs compute capability 9.0, got " + capability(device);
    return reject(problem, device, StreamEngine::wgmma, StreamForm::gather);
}

double gather_cost(const Problem& problem, const Epilogue&, const Device& device) {
    return cost(problem, device, StreamEngine::wgmma, StreamForm::gather);
}

std::vector<std::string> gather_variants(const Problem& problem, const Epilogue&, const Device& device) {
    return variants(problem, device, StreamEngine::wgmma, StreamForm::gather);
}

std::unique_ptr<Kernel> prepare_gather(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                       const std::string& variant) {
    return prepare(problem, epilogue, device, StreamEngine::wgmma, StreamForm::gather, variant);
}

std::string reject_mma(const Problem& problem, const Epilogue&, const Device& device) {
    if (device.sm < 80) return "mma.sync needs compute capability 8.0, got " + capability(device);
    return reject(problem, device, StreamEngine::mma, StreamForm::scatter);
}

double mma_cost(const Problem& problem, const Epilogue&, const Device& device) {
    return cost(problem, device, StreamEngine::mma, StreamForm::scatter);
}

std::vector<std::string> mma_variants(const Problem& problem, const Epilogue&, const Device& device) {
    return variants(problem, device, StreamEngine::mma, StreamForm::scatter);
}

std::unique_ptr<Kernel> prepare_mma(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                    const std::string& variant) {
    return prepare(problem, epilogue, device, StreamEngine::mma, StreamForm::scatter, variant);
}

} // namespace tconv3d::cuda
