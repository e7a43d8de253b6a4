#include "isa.hpp"

#include <cstdlib>

#include "tconv3d/error.hpp"

namespace tconv3d::cpu {

namespace {

/// Names the first feature that the machine lacks; empty when it has them all.
std::string missing_feature(Isa isa) {
#if defined(TCONV3D_X86)
    if (isa == Isa::avx512) {
        if (!__builtin_cpu_supports("avx512f")) return "this CPU has no AVX-512F";
        if (!__builtin_cpu_supports("avx512bw")) return "this CPU has no AVX-512BW";
        if (!__builtin_cpu_supports("avx512dq")) return "this CPU has no AVX-512DQ";
        if (!__builtin_cpu_supports("avx512vl")) return "this CPU has no AVX-512VL";
    }
    if (isa != Isa::portable) {
        if (!__builtin_cpu_supports("avx2")) return "this CPU has no AVX2";
        if (!__builtin_cpu_supports("fma")) return "this CPU has no FMA";
    }
    return "";
#else
    return isa == Isa::portable ? "" : "this build is not for x86-64";
#endif
}

} // namespace

const char* name(Isa isa) {
    switch (isa) {
    case Isa::avx512:
        return "avx512";
    case Isa::avx2:
        return "avx2";
    case Isa::portable:
        return "portable";
    }
    return "?";
}

std::vector<IsaStatus> isa_statuses() {
    std::vector<IsaStatus> statuses;
    for (Isa isa : {Isa::avx512, Isa::avx2, Isa::portable}) {
        std::string why = missing_feature(isa);
        statuses.push_back({isa, why.empty(), why});
    }
    return statuses;
}

Isa chosen_isa() {
    const char* forced = std::getenv("TCONV3D_ISA");
    const std::string wanted = forced ? forced : "";
    for (const IsaStatus& status : isa_statuses()) {
        if (wanted.empty() && status.available) return status.isa;
        if (wanted != name(status.isa)) continue;
        if (!status.available) throw Error("TCONV3D_ISA=" + wanted + " cannot be used: " + status.why);
        return status.isa;
    }
    throw Error("TCONV3D_ISA=" + wanted + " is not known; use avx512, avx2 or portable");
}

} // namespace tconv3d::cpu
