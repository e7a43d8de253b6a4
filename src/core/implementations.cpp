#include "cpu/columns.hpp"
#include "cpu/planes.hpp"
#include "implementation.hpp"
#include "lasting.hpp"
#include "reference/reference.hpp"

namespace tconv3d {

const std::vector<Implementation>& implementation_list() {
    static const Lasting<std::vector<Implementation>> list(std::vector<Implementation>{
        {"planes", cpu::answer_planes},
        {"columns", cpu::answer_columns},
        {"reference", answer_reference},
    });
    return *list;
}

std::vector<std::string> implementations() {
    std::vector<std::string> names;
    for (const Implementation& implementation : implementation_list()) names.emplace_back(implementation.name);
    return names;
}

} // namespace tconv3d
