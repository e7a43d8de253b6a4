#include "argument_checks.hpp"

#include <cstdint>

#include "tconv3d/error.hpp"

namespace tconv3d {

void require_present(const void* pointer, const std::string& what, const std::string& who) {
    if (pointer == nullptr) throw Error(who + " needs " + what + ", got a null pointer");
}

void require_aligned(const void* pointer, size_t bytes, const std::string& what) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address % bytes == 0) return;
    throw Error(what + " must be aligned to " + std::to_string(bytes) + " bytes, got an address that is " +
                std::to_string(address % bytes) + " bytes behind a multiple of that");
}

void refuse_channels_last_weight(const std::string& who) {
    throw Error(who + " takes the weight as (ci, co / g, kD, kH, kW), got weight_channels_last = true");
}

void require_operands(const Problem& problem, const Epilogue& epilogue, const std::vector<const void*>& operands,
                      const std::string& who) {
    const size_t expected = static_cast<size_t>(epilogue.operand_count());
    if (operands.size() != expected)
        throw Error("epilogue '" + epilogue.str() + "' takes " + std::to_string(expected) + " tensors, got " +
                    std::to_string(operands.size()));
    for (const Step& step : epilogue.steps()) {
        const bool holds_nothing = takes_residual(step.kind) && problem.batch == 0;
        if (step.operand < 0 || holds_nothing) continue;
        const void* operand = operands[static_cast<size_t>(step.operand)];
        if (operand == nullptr) // named only then: every call comes past here
            require_present(operand, "operand " + std::to_string(step.operand) + " (" + name(step.kind) + ")", who);
    }
}

void require_plannable(const Problem& problem, const Epilogue& epilogue) {
    problem.validate();
    if (problem.direction != Direction::fwd && !epilogue.empty())
        throw Error("an epilogue belongs to fwd, got '" + epilogue.str() + "' with " + name(problem.direction));
}

std::array<RequiredTensor, 3> required_tensors(Direction direction, const Arguments& arguments) {
    switch (direction) {
    case Direction::fwd:
        return {{{"src", arguments.src, true}, {"weight", arguments.weight, false}, {"dst", arguments.dst, true}}};
    case Direction::bwd_data:
        return {{{"grad_dst", arguments.grad_dst, true},
                 {"weight", arguments.weight, false},
                 {"grad_src", arguments.grad_src, true}}};
    case Direction::bwd_weight:
        return {{{"src", arguments.src, true},
                 {"grad_dst", arguments.grad_dst, true},
                 {"grad_weight", arguments.grad_weight, false}}};
    }
    throw Error("unknown direction");
}

void require_arguments(const Problem& problem, const Epilogue& epilogue, const Arguments& arguments) {
    for (const RequiredTensor& tensor : required_tensors(problem.direction, arguments))
        if (problem.batch > 0 || !tensor.batched) require_present(tensor.data, tensor.name, name(problem.direction));
    require_operands(problem, epilogue, arguments.operands, name(problem.direction));
}

void require_epilogue_gradients(const Problem& problem, const Epilogue& epilogue, const EpilogueGradients& gradients) {
    problem.validate();
    require_operands(problem, epilogue, gradients.operands, "epilogue_bwd");
    const size_t wanted = gradients.grad_operands.size();
    if (wanted != 0 && wanted != gradients.operands.size())
        throw Error("epilogue_bwd takes no grad_operands or one per operand, got " + std::to_string(wanted) + " for " +
                    std::to_string(gradients.operands.size()) + " operands");
    if (problem.batch == 0) return;
    require_present(gradients.grad_dst, "grad_dst", "epilogue_bwd");
    if (epilogue.saved() != Saved::nothing) require_present(gradients.saved, "saved", "epilogue_bwd");
    require_present(gradients.grad_preactivation, "grad_preactivation", "epilogue_bwd");
}

} // namespace tconv3d
