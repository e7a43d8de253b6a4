#pragma once

#include <string>
#include <vector>

#include "cuda/tensorcore/gathered/cost.hpp"
#include "cuda/tensorcore/streamed/cost.hpp"

namespace tconv3d::fit {

/// A constant of a model, by the name of its field, such as product.column.
struct Constant {
    std::string name;
    double* value;
};

/// All constants of a model, in the order of its header. They point into it.
std::vector<Constant> constants(cuda::tensorcore::StreamedModel& model);
std::vector<Constant> constants(cuda::tensorcore::GatheredModel& model);

} // namespace tconv3d::fit
