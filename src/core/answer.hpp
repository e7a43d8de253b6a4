#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tconv3d {

/// One way in which an implementation can carry out a problem.
template <typename Kernel>
struct Candidate {
    std::string name;    ///< among the candidates of the implementation; empty where there is only one
    double microseconds; ///< the estimated time; 0 where the order of the implementations decides
    std::function<std::unique_ptr<Kernel>()> prepare;
};

/// What an implementation says of a problem: why it cannot take it, or the ways in which it can.
template <typename Kernel>
struct Answer {
    std::string reason;                        ///< for the refusal, with the offending values; empty when it accepts
    std::vector<Candidate<Kernel>> candidates; ///< the best by estimate first; at least one when it accepts

    bool accepts() const { return reason.empty(); }
};

} // namespace tconv3d
