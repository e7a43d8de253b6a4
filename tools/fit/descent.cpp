#include "fit/descent.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace tconv3d::fit {

namespace {

std::string four_digits(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return text;
}

/// The error as it is, and what a change of one constant does to it.
class Descent {
public:
    Descent(const std::vector<Constant>& constants, const std::function<double()>& error)
        : constants_(constants), error_(error), least_(error()) {}

    double least() const { return least_; }

    /// Changes constants by the factor or by its inverse, those that lessen the error most at first: of constants with
    /// like effects the one moves that explains the most. Returns whether one has moved.
    bool round(double factor) {
        std::multimap<double, Change> by_error;
        for (const Constant& constant : constants_) {
            if (*constant.value == 0) continue;
            const Change up{constant.value, factor}, down{constant.value, 1 / factor};
            by_error.emplace(error_after(up), up);
            by_error.emplace(error_after(down), down);
        }
        bool moved = false;
        for (const auto& [error, change] : by_error) {
            if (error >= enough()) break;
            while (take(change)) moved = true;
        }
        return moved;
    }

    /// Whether a change by a tenth moves the error.
    bool is_constrained(const Constant& constant) const {
        const auto moves = [&](double factor) {
            return std::abs(error_after({constant.value, factor}) - least_) >= kLeastChange;
        };
        return moves(1.1) || moves(1 / 1.1);
    }

    /// Puts a constant back where that makes no difference, and rounds it otherwise.
    void settle(const Constant& constant, double before) {
        if (*constant.value == before) return;
        const double back = error_after({constant.value, before / *constant.value});
        *constant.value =
            back < least_ + kLeastChange ? before : std::strtod(four_digits(*constant.value).c_str(), nullptr);
        least_ = error_();
    }

private:
    static constexpr double kLeastChange = 1e-6; ///< of the error, that makes a difference

    struct Change {
        double* value;
        double factor;
    };

    /// An error that is worth a change. Constants that hardly matter stay as they are.
    double enough() const {
        constexpr double kLeastGain = 1e-4;
        return (1 - kLeastGain) * least_;
    }

    double error_after(const Change& change) const {
        const double before = *change.value;
        *change.value *= change.factor;
        const double error = error_();
        *change.value = before;
        return error;
    }

    bool take(const Change& change) {
        const double error = error_after(change);
        if (error >= enough()) return false;
        *change.value *= change.factor;
        least_ = error;
        return true;
    }

    const std::vector<Constant>& constants_;
    const std::function<double()>& error_;
    double least_;
};

} // namespace

std::vector<Fitted> descend(const std::vector<Constant>& constants, const std::function<double()>& error,
                            const std::function<void(const std::string&)>& report) {
    constexpr int kMostRounds = 20;
    std::vector<Fitted> fitted;
    fitted.reserve(constants.size());
    for (const Constant& constant : constants) fitted.push_back({constant.name, *constant.value, 0, false});
    Descent descent(constants, error);
    for (const double step : {0.1, 0.03, 0.01}) {
        for (int round = 1; round <= kMostRounds && descent.round(1 + step); ++round)
            report("steps of " + four_digits(100 * step) + " %, round " + std::to_string(round) +
                   ": mean squared log error " + four_digits(descent.least()));
    }
    for (size_t i = 0; i < constants.size(); ++i) {
        descent.settle(constants[i], fitted[i].before);
        fitted[i].after = *constants[i].value;
    }
    for (size_t i = 0; i < constants.size(); ++i) fitted[i].constrained = descent.is_constrained(constants[i]);
    return fitted;
}

} // namespace tconv3d::fit
