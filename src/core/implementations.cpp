#include "cpu/planes.hpp"
#include "implementation.hpp"
#include "reference/reference.hpp"

namespace tconv3d {

const std::vector<Implementation>& implementation_list() {
    static const std::vector<Implementation> list = {
        {"planes", cpu::reject_planes, cpu::prepare_planes},
        {"reference", reject_reference, prepare_reference},
    };
    return list;
}

std::vector<std::string> implementations() {
    std::vector<std::string> names;
    for (const Implementation& implementation : implementation_list()) names.emplace_back(implementation.name);
    return names;
}

} // namespace tconv3d
