#include "cuda/tensorcore/families.hpp"
#include "core/lasting.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/outer/outer.hpp"
#include "cuda/reduction/reduction.hpp"
#include "cuda/select/family.hpp"
#include "cuda/sweep/sweep.hpp"

namespace tconv3d::cuda {

const std::vector<Family>& families() {
    static const Lasting<std::vector<Family>> list(std::vector<Family>{
        {"stream", tensorcore::answer_streamed}, //
        {"gather", tensorcore::answer_gathered}, //
        {"mma", tensorcore::answer_mma},         //
        {"sweep", answer_sweep},                 //
        {"outer", answer_outer, true},           //
        {"reduce", answer_reduce},               //
        {"cells", answer_cells},                 //
        {"direct", answer_direct},
    });
    return *list;
}

std::vector<std::string> implementations() {
    std::vector<std::string> names;
    for (const Family& family : families()) names.emplace_back(family.name);
    return names;
}

} // namespace tconv3d::cuda
