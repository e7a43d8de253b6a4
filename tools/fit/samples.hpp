#pragma once

#include <cstddef>
#include <functional>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/gathered/cost.hpp"
#include "cuda/tensorcore/streamed/cost.hpp"

namespace tconv3d::fit {

/// A candidate of a problem and how long it took.
struct Sample {
    Problem problem;
    cuda::tensorcore::Tiling tiling;
    std::string implementation;
    int multiprocessors;
    double microseconds;

    std::string name() const;
};

/// What a file of `tune --record` has for a form.
struct Samples {
    std::vector<Sample> list;
    size_t lines = 0;   ///< of the file
    size_t others = 0;  ///< lines of other forms and families
    size_t unknown = 0; ///< lines with a candidate that there is not, any more or yet
};

/// The members of a JSON object that holds nothing but strings and numbers. Throws Error where it is none.
std::map<std::string, std::string> parse_flat_json(const std::string& line);

/// Reads the lines of the form and finds their configs, each as the model's default constants make it. `report` is told
/// how many lines are read. Throws Error, with the number of the line, where one lacks what it needs.
Samples read_samples(std::istream& file, cuda::tensorcore::Form form, const std::function<void(size_t)>& report);

double estimated_microseconds(const Sample& sample, const cuda::tensorcore::StreamedModel& model);
double estimated_microseconds(const Sample& sample, const cuda::tensorcore::GatheredModel& model);

} // namespace tconv3d::fit
