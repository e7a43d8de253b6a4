#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "fit/descent.hpp"
#include "fit/samples.hpp"

/// Fitting the constants of a cost model to measured times. A model is StreamedModel or GatheredModel.
namespace tconv3d::fit {

/// The logarithm of how much too long the estimate is.
template <typename Model>
double log_error(const Sample& sample, const Model& model) {
    return std::log(estimated_microseconds(sample, model) / sample.microseconds);
}

template <typename Model>
double mean_squared_log_error(const std::vector<Sample>& samples, const Model& model) {
    double sum = 0;
    for (const Sample& sample : samples) sum += std::pow(log_error(sample, model), 2);
    return sum / static_cast<double>(samples.size());
}

template <typename Model>
double mean_absolute_log_error(const std::vector<Sample>& samples, const Model& model) {
    double sum = 0;
    for (const Sample& sample : samples) sum += std::abs(log_error(sample, model));
    return sum / static_cast<double>(samples.size());
}

/// Changes the model such that its mean squared log error is small. There is one sample at least.
template <typename Model>
std::vector<Fitted> fit(const std::vector<Sample>& samples, Model& model,
                        const std::function<void(const std::string&)>& report) {
    return descend(constants(model), [&] { return mean_squared_log_error(samples, model); }, report);
}

} // namespace tconv3d::fit
