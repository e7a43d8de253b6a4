#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/select/implementation.hpp"
#include "cuda/tensorcore/config.hpp"

namespace tconv3d::cuda {

namespace {

/// For families that have but one.
std::vector<std::string> one_variant(const Problem&, const Epilogue&, const Device&) {
    return {""};
}

} // namespace

const std::vector<Implementation>& implementation_list() {
    static const std::vector<Implementation> list = {
        {"stream", reject_stream, stream_cost, stream_variants, prepare_stream},
        {"gather", reject_gather, gather_cost, gather_variants, prepare_gather},
        {"mma", reject_mma, mma_cost, mma_variants, prepare_mma},
        {"cells", reject_cells, cells_cost, one_variant, prepare_cells},
        {"direct", reject_direct, direct_cost, one_variant, prepare_direct},
    };
    return list;
}

std::vector<std::string> implementations() {
    std::vector<std::string> names;
    for (const Implementation& implementation : implementation_list()) names.emplace_back(implementation.name);
    return names;
}

} // namespace tconv3d::cuda
