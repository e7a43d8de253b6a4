#pragma once

#include <random>
#include <string>
#include <vector>

#include "tconv3d/epilogue_bwd.hpp"
#include "tensors.hpp"

namespace tconv3d::testing {

/// A chain, its data and its gradients. Everything is as large as dst, but for channel operands.
struct EpilogueBwdCase {
    Problem problem;
    Epilogue epilogue;
    Tensor preactivation;
    Tensor grad_dst;
    std::vector<Tensor> operands;
    Tensor grad_preactivation;
    std::vector<Tensor> grad_operands;

    EpilogueBwdCase(const Problem& p, const std::string& chain)
        : problem(p), epilogue(Epilogue::parse(chain)), preactivation(random(p.dst_elements(), 1)),
          grad_dst(random(p.dst_elements(), 2)), grad_preactivation(p.dtype, p.dst_elements()) {
        for (const Step& step : epilogue.steps()) {
            if (step.operand < 0) continue;
            const int64_t count = takes_channel(step.kind) ? p.dst_channels : p.dst_elements();
            operands.push_back(random(count, 3 + static_cast<unsigned>(step.operand)));
            grad_operands.emplace_back(p.dtype, count);
        }
    }

    Tensor random(int64_t count, unsigned seed) const {
        std::mt19937 generator(seed);
        return Tensor::reals(problem.dtype, count, generator);
    }

    int64_t channel(int64_t i) const {
        const bool planar = problem.layout == Layout::ncdhw;
        return (planar ? i / problem.dst_voxels() : i) % problem.dst_channels;
    }

    int64_t operand_index(const Step& step, int64_t i) const { return takes_channel(step.kind) ? channel(i) : i; }

    /// The chain at element i, with x and the values of one operand moved a little.
    double value(int64_t i, double dx, int moved, double d_operand) const {
        double x = preactivation.at(i) + dx;
        for (const Step& step : epilogue.steps()) {
            double operand = 0;
            if (step.operand >= 0) operand = operands[static_cast<size_t>(step.operand)].at(operand_index(step, i));
            x = step_value(step, x, operand + (step.operand == moved ? d_operand : 0));
        }
        return x;
    }

    /// What the chain asks for: dst or preactivation; empty where it needs nothing.
    Tensor saved() const {
        if (epilogue.saved() == Saved::preactivation) return preactivation;
        Tensor dst(problem.dtype, epilogue.saved() == Saved::output ? problem.dst_elements() : 0);
        for (int64_t i = 0; i < dst.count(); ++i) dst.set(i, value(i, 0, -2, 0));
        return dst;
    }

    void run(Executor& executor) {
        const Tensor kept = saved();
        EpilogueGradients gradients;
        gradients.grad_dst = grad_dst.data();
        if (epilogue.saved() != Saved::nothing) gradients.saved = kept.data();
        gradients.grad_preactivation = grad_preactivation.data();
        for (const Tensor& operand : operands) gradients.operands.push_back(operand.data());
        for (Tensor& gradient : grad_operands) gradients.grad_operands.push_back(gradient.data());
        epilogue_bwd(problem, epilogue, gradients, executor);
    }
};

} // namespace tconv3d::testing
