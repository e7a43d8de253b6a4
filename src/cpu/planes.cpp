#include "planes.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/number_text.hpp"
#include "correlate.hpp"
#include "isa.hpp"
#include "kernels.hpp"
#include "reduce.hpp"
#include "work.hpp"

namespace tconv3d::cpu {

namespace {

std::unique_ptr<Kernel> prepare_planes(const Problem& problem, const Epilogue& epilogue) {
    const Isa isa = chosen_isa();
    if (problem.direction == Direction::bwd_weight) return make_reduce(problem, isa);
    return make_correlate(problem, epilogue, isa);
}

} // namespace

#if defined(TCONV3D_X86)
namespace avx512 {
const Kernels<float>& kernels_f32();
const Kernels<double>& kernels_f64();
} // namespace avx512
namespace avx2 {
const Kernels<float>& kernels_f32();
const Kernels<double>& kernels_f64();
} // namespace avx2
#endif
namespace portable {
const Kernels<float>& kernels_f32();
const Kernels<double>& kernels_f64();
} // namespace portable

template <>
const Kernels<float>& kernels<float>(Isa isa) {
#if defined(TCONV3D_X86)
    if (isa == Isa::avx512) return avx512::kernels_f32();
    if (isa == Isa::avx2) return avx2::kernels_f32();
#endif
    (void)isa;
    return portable::kernels_f32();
}

template <>
const Kernels<double>& kernels<double>(Isa isa) {
#if defined(TCONV3D_X86)
    if (isa == Isa::avx512) return avx512::kernels_f64();
    if (isa == Isa::avx2) return avx2::kernels_f64();
#endif
    (void)isa;
    return portable::kernels_f64();
}

namespace {

/// Phases and taps are listed one by one: beyond these, making the lists would take longer than a plan may.
constexpr int64_t kMostPhases = 4096;
constexpr int64_t kMostTaps = 32768;

/// Checked factor by factor, so that the product of huge extents cannot overflow.
bool has_product_up_to(const Extents& extents, int64_t most) {
    int64_t product = 1;
    for (const int64_t extent : extents) {
        if (extent > most / product) return false;
        product *= extent;
    }
    return true;
}

/// Whether the input that one row of outputs reads, zero-padded in all planes, has a size that memory may have.
bool has_sized_slabs(const Problem& problem) {
    constexpr int64_t kMostElements = int64_t{1} << 37; // a TiB of doubles
    Checked elements = std::max(problem.src[2], problem.dst()[2]);
    for (size_t i = 0; i < 3; ++i) {
        const Checked span = Checked(problem.dilation[i]) * (Checked(problem.kernel[i]) - 1) + problem.padding[i];
        if (!span.fits()) return false;
        const Checked reach = span.value() / problem.stride[i] + 2;
        const int64_t planes = std::min(problem.stride[i], problem.kernel[i]);
        elements = (i == 2 ? elements + reach : elements * (reach + 1)) * planes;
    }
    return elements.fits() && elements.value() <= kMostElements;
}

std::string duration(double nanoseconds) {
    if (nanoseconds >= 1e9) return with_digits(nanoseconds / 1e9, 3) + " s";
    return nanoseconds >= 1e6 ? with_digits(nanoseconds / 1e6, 3) + " ms" : with_digits(nanoseconds / 1e3, 3) + " µs";
}

/// Why columns are to be preferred; empty where they are not.
std::string less_work_by_columns(const Problem& problem) {
    // Estimates are rough, and what takes no time may take it either way.
    constexpr double kFactor = 4, kNanoseconds = 1e5;
    const double planes = planes_work(problem);
    if (planes < kNanoseconds) return "";
    const double columns = columns_work(problem);
    if (planes <= kFactor * columns) return "";
    return "multiplies and packs the zeros between taps, estimated " + duration(planes) +
           " of one core, slower than columns' " + duration(columns);
}

std::string reject_planes(const Problem& problem) {
    if (!has_product_up_to(problem.stride, kMostPhases))
        return "stride " + str(problem.stride) + " makes more than " + std::to_string(kMostPhases) + " phases";
    if (!has_product_up_to(problem.kernel, kMostTaps))
        return "kernel " + str(problem.kernel) + " has more than " + std::to_string(kMostTaps) + " taps";
    if (!has_sized_slabs(problem))
        return "taps lie so far apart that the rows between them would take more than a TiB: kernel " +
               str(problem.kernel) + ", padding " + str(problem.padding) + ", dilation " + str(problem.dilation);
    return less_work_by_columns(problem);
}

} // namespace

Answer<Kernel> answer_planes(const Problem& problem, const Epilogue& epilogue) {
    const std::string reason = reject_planes(problem);
    if (!reason.empty()) return {reason, {}};
    return {"", {{"", 0, [problem, epilogue] { return prepare_planes(problem, epilogue); }}}};
}

std::string machine_json_isas() {
    std::string json = "[";
    for (const IsaStatus& status : isa_statuses()) {
        if (json.size() > 1) json += ", ";
        json += std::string("{\"name\": \"") + name(status.isa) +
                "\", \"available\": " + (status.available ? "true" : "false") + ", \"why\": \"" + status.why + "\"}";
    }
    return json + "]";
}

} // namespace tconv3d::cpu
