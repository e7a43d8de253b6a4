#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tconv3d/problem.hpp"

namespace tconv3d::testing {

inline std::vector<Problem> read_problems(const std::string& name) {
    std::ifstream file(TCONV3D_PROBLEMS "/" + name);
    std::vector<Problem> list;
    for (std::string text; std::getline(file, text);) {
        text = text.substr(0, text.find('#'));
        const size_t colon = text.find(':');
        if (colon != std::string::npos) list.push_back(Problem::parse(text.substr(colon + 1)));
    }
    EXPECT_FALSE(list.empty()) << name;
    return list;
}

/// The problems of problems/correctness.txt.
inline std::vector<Problem> listed_problems() {
    std::vector<Problem> list = read_problems("correctness.txt");
    EXPECT_GE(list.size(), 150u);
    return list;
}

/// A valid problem for the gradient of the weight.
inline Problem parse_bwd_weight(const std::string& line) {
    Problem problem = Problem::parse(line);
    problem.direction = Direction::bwd_weight;
    problem.validate();
    return problem;
}

inline Problem with(const Problem& problem, DType dtype, MathMode math, Layout layout) {
    Problem changed = problem;
    changed.dtype = dtype;
    changed.math = math;
    changed.layout = layout;
    return changed;
}

/// All ways to multiply and lay out a problem on tensor cores.
inline std::vector<Problem> modes(const Problem& problem) {
    std::vector<Problem> list;
    for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
        list.push_back(with(problem, DType::f32, MathMode::tf32, layout));
        list.push_back(with(problem, DType::f32, MathMode::full, layout));
        list.push_back(with(problem, DType::bf16, MathMode::full, layout));
        list.push_back(with(problem, DType::f16, MathMode::full, layout));
    }
    return list;
}

/// Tests that compile a kernel for each problem take one of so many: TCONV3D_TEST_EVERY=1 takes them all.
inline size_t sampled_every() {
    const char* every = std::getenv("TCONV3D_TEST_EVERY");
    return every != nullptr ? std::max<size_t>(std::strtoul(every, nullptr, 10), 1) : 16;
}

} // namespace tconv3d::testing
