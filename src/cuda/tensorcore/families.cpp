#include "cuda/tensorcore/families.hpp"

#include <algorithm>
#include <utility>

#include "core/direction.hpp"
#include "core/index_map.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/tensorcore/any_size.hpp"
#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/gathered/tiles.hpp"
#include "cuda/tensorcore/kernel.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// Why 32-bit coordinates or unrolled phases cannot serve the problem; empty when they can.
std::string reject_extents(const Problem& problem) {
    const Extents in = in_extents(problem), out = out_extents(problem), stride = problem.stride;
    // More than any GPU has memory for. Whatever is counted below, with tiles that are not full and weights that are
    // packed once for each rotation, is then far from the end of 64 bits.
    constexpr int64_t kMostElements = int64_t{1} << 38;
    if (std::max({problem.src_elements(), problem.dst_elements(), problem.weight_elements()}) >= kMostElements)
        return "takes tensors of fewer than 2^38 elements, got " + problem.str();
    const int64_t weights = problem.dst_channels_per_group() * problem.taps();
    if (weights >= int64_t{1} << 31)
        return "takes fewer than 2^31 weights of an input channel, got " + std::to_string(weights);
    constexpr int64_t kLimit = int64_t{1} << 30;
    if (out[1] * out[2] >= kLimit || out[0] >= kLimit || in[1] * in[2] >= kLimit || in[0] * problem.batch >= kLimit)
        return "takes slices of fewer than 2^30 voxels, got " + str(in) + " to " + str(out);
    const int64_t neighbours = problem.channels_last() ? all_out_channels(problem) : 1;
    if (out[1] * out[2] * neighbours >= int64_t{1} << 31) {
        return "takes slices of fewer than 2^31 outputs, got " + str(out) + " of " + std::to_string(neighbours) +
               " channels";
    }
    if (!has_shifts_below(problem, kLimit))
        return "takes taps fewer than 2^30 voxels apart, got kernel " + str(problem.kernel) + ", padding " +
               str(problem.padding) + ", dilation " + str(problem.dilation);
    constexpr int64_t kMostTaps = 92; // those of one k step and 32 channels are less than 99 KiB of shared memory
    if (problem.kernel[1] * problem.kernel[2] > kMostTaps)
        return "takes at most " + std::to_string(kMostTaps) + " taps in a plane, got kernel " + str(problem.kernel);
    constexpr int64_t kMostDepthTaps = 512; // each is a table's entry; the streamed form has slots for a few dozen
    if (problem.kernel[0] > kMostDepthTaps)
        return "takes at most " + std::to_string(kMostDepthTaps) + " taps along d, got kernel " + str(problem.kernel);
    constexpr int64_t kMostPhases = 64;
    if (std::max({stride[0], stride[1], stride[2]}) > kMostPhases || stride[0] * stride[1] * stride[2] > kMostPhases)
        return "takes at most 64 phases, got stride " + str(stride);
    // Where the padding is large, outputs read far beyond a small input.
    for (size_t i = 0; i < 3; ++i)
        if (out[i] * in_stride(problem)[i] >= kLimit)
            return "takes outputs that read fewer than 2^30 voxels apart, got " + str(out) + " of stride " +
                   str(stride);
    return "";
}

/// Products that make up an output, on average.
double products_of_output(const Problem& problem) {
    const Extents stride = out_stride(problem);
    return static_cast<double>(in_channels(problem) * problem.taps()) /
           static_cast<double>(stride[0] * stride[1] * stride[2]);
}

/// Each product of split fp32 lacks its last bits. In long sums the rounding of every sum hides that.
std::string reject_accuracy(const Problem& problem) {
    constexpr double kFewestProducts = 64;
    const double products = products_of_output(problem);
    if (parts(problem) == 1 || products >= kFewestProducts) return "";
    return "f32 in parts would be less accurate than PyTorch in sums of fewer than 64 products, got " +
           std::to_string(static_cast<int64_t>(products));
}

std::string reject_problem(const Problem& problem, Engine engine, Form form) {
    if (problem.direction == Direction::bwd_weight) return "takes fwd and bwd_data, got bwd_weight";
    if (problem.dtype == DType::f64) return "tensor cores take f32, bf16 and f16, got f64";
    std::string reason = reject_extents(problem);
    if (reason.empty()) reason = reject_accuracy(problem);
    if (reason.empty() && form == Form::gathered)
        reason = reject_gathered(problem, all_tables(problem, engine, form).front());
    return reason;
}

/// Why CTAs cannot count their work in 32 bits; empty when they can.
std::string reject_items(const Problem& problem, const Tiling& tiling) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    const int64_t items = item_count(problem, tiling.tables, tiling.config);
    if (items >= kLimit) return "takes fewer than 2^30 work items, got " + std::to_string(items);
    const int64_t depth = item_depth(tiling.tables, tiling.config);
    if (depth >= kLimit) return "takes work items of fewer than 2^30 slices, got " + std::to_string(depth);
    const int64_t shared = (items - tiling.config.schedule.whole_items) * depth;
    return shared < kLimit ? "" : "takes fewer than 2^30 slices that CTAs share, got " + std::to_string(shared);
}

/// The best ones first. Where kernels for any size have a tile, only these count, in whichever form they are.
std::vector<Tiling> tilings_for(const Question& question, Engine engine, Form form) {
    std::vector<Tiling> tilings;
    if (question.any_size && question.most_candidates == 1)
        tilings = any_size_tilings(question.problem, question.device, engine);
    if (tilings.empty()) return best_tilings(question.problem, question.device, engine, form, question.most_candidates);
    const auto of_form = [&](const Tiling& tiling) { return tiling.config.form == form; };
    const auto best = std::find_if(tilings.begin(), tilings.end(), of_form);
    return best == tilings.end() ? std::vector<Tiling>{} : std::vector<Tiling>{*best};
}

Answer answer(const Question& question, Engine engine, Form form) {
    std::string reason = reject_problem(question.problem, engine, form);
    if (!reason.empty()) return {std::move(reason), {}};
    std::vector<Tiling> tilings = tilings_for(question, engine, form);
    if (tilings.empty())
        return {question.any_size ? "the layer's kernels for any size are of another form, or none fits"
                                  : "no tile fits into shared memory and registers",
                {}};
    reason = reject_items(question.problem, tilings.front());
    if (!reason.empty()) return {std::move(reason), {}};
    const auto is_rejected = [&](const Tiling& tiling) { return !reject_items(question.problem, tiling).empty(); };
    tilings.erase(std::remove_if(tilings.begin(), tilings.end(), is_rejected), tilings.end());
    Answer answer;
    for (const Tiling& tiling : tilings) {
        const double microseconds = tiling.config.schedule.microseconds();
        std::string name = tiling.name();
        answer.candidates.push_back(
            {std::move(name), microseconds,
             [problem = question.problem, epilogue = question.epilogue, device = question.device, chosen = tiling] {
                 return make_kernel(problem, epilogue, device, chosen);
             }});
    }
    return answer;
}

Answer answer_wgmma(const Question& question, Form form) {
    if (std::string reason = reject_wgmma(question.device.sm); !reason.empty()) return {std::move(reason), {}};
    return answer(question, Engine::wgmma, form);
}

} // namespace

Answer answer_streamed(const Question& question) {
    return answer_wgmma(question, Form::streamed);
}

Answer answer_gathered(const Question& question) {
    return answer_wgmma(question, Form::gathered);
}

Answer answer_mma(const Question& question) {
    if (question.device.sm < 80)
        return {"mma.sync needs compute capability 8.0, got " + std::to_string(question.device.sm / 10) + "." +
                    std::to_string(question.device.sm % 10),
                {}};
    return answer(question, Engine::mma, Form::streamed);
}

} // namespace tconv3d::cuda::tensorcore
