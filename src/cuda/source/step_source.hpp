#pragma once

#include <string>

#include "tconv3d/epilogue.hpp"
#include "tconv3d/problem.hpp"

/// The steps of an epilogue as device code.
namespace tconv3d::cuda {

/// What the text of a step is made of.
struct StepWords {
    std::string x;       ///< the step's input
    std::string operand; ///< the value of its tensor, for steps that take one
    DType dtype;
    bool calls = false; ///< whether functions are called, those of called_functions(), or stand in the chain
};

/// The value of the step at `x`, by functions of kernels/finish/steps.cuh.
std::string value_source(const Step& step, const StepWords& words);

/// The gradient of the step's input, from `grad`, that of its output, by functions of
/// kernels/finish/step_derivatives.cuh.
std::string gradient_source(const Step& step, const StepWords& words);

/// The gradient of the step's input where `x` is the step's output, for the steps that Epilogue::saved() counts on.
std::string gradient_source_from_output(const Step& step, const StepWords& words);

/// The functions that value_source prints for the chain with `calls`, none of which is inlined; of derivatives too,
/// where they are wanted.
std::string called_functions(const Epilogue& epilogue, bool with_derivatives);

/// Milliseconds that NVRTC takes for the values of the chain at one output, about.
double compile_cost(const Epilogue& epilogue);

} // namespace tconv3d::cuda
