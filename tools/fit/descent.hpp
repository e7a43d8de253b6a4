#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fit/constants.hpp"

namespace tconv3d::fit {

/// What descend() did to a constant.
struct Fitted {
    std::string name;
    double before;
    double after;
    bool constrained; ///< whether the error moves when it does
};

/// Coordinate descent: changes one constant after another by a factor as long as that lessens the error, in rounds, the
/// factors being smaller in later ones. Constants stay positive, and those that are 0 stay 0: they are parts that a
/// case does not have. Those that make no difference keep their values, and the others are rounded to four digits.
/// `report` is told of each round.
std::vector<Fitted> descend(const std::vector<Constant>& constants, const std::function<double()>& error,
                            const std::function<void(const std::string&)>& report);

} // namespace tconv3d::fit
