#include "planes.hpp"

#include "correlate.hpp"
#include "isa.hpp"
#include "kernels.hpp"
#include "reduce.hpp"

namespace tconv3d::cpu {

namespace {

/// Phases are listed one by one; beyond this many the list itself would cost more than the reference.
constexpr int64_t kMostPhases = 4096;

bool has_few_phases(const Problem& problem) {
    int64_t phases = 1;
    for (const int64_t stride : problem.stride) {
        // Checked factor by factor, so that the product of huge strides cannot overflow.
        if (stride > kMostPhases / phases) return false;
        phases *= stride;
    }
    return true;
}

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

Answer<Kernel> answer_planes(const Problem& problem, const Epilogue& epilogue) {
    if (!has_few_phases(problem)) {
        return {"stride " + str(problem.stride) + " makes more than " + std::to_string(kMostPhases) + " phases", {}};
    }
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
