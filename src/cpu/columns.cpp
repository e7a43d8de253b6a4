#include "columns.hpp"

#include <array>

namespace tconv3d::cpu {

namespace {

std::unique_ptr<Kernel> prepare_columns(const Problem& problem, const Epilogue& epilogue) {
    const Isa isa = chosen_isa();
    switch (problem.direction) {
    case Direction::fwd:
        return make_columns_fwd(problem, epilogue, isa);
    case Direction::bwd_data:
        return make_columns_bwd_data(problem, isa);
    case Direction::bwd_weight:
        return make_columns_bwd_weight(problem, isa);
    }
    return nullptr;
}

} // namespace

Problem with_dimensions_last(const Problem& problem) {
    const Extents dst = problem.dst();
    const auto holds_one = [&](size_t i) { return problem.src[i] == 1 && problem.kernel[i] == 1 && dst[i] == 1; };
    std::array<size_t, 3> order{};
    size_t next = 0;
    for (const bool ones : {true, false})
        for (size_t i = 0; i < 3; ++i)
            if (holds_one(i) == ones) order[next++] = i;
    Problem ordered = problem;
    for (size_t i = 0; i < 3; ++i) {
        ordered.src[i] = problem.src[order[i]];
        ordered.kernel[i] = problem.kernel[order[i]];
        ordered.stride[i] = problem.stride[order[i]];
        ordered.padding[i] = problem.padding[order[i]];
        ordered.output_padding[i] = problem.output_padding[order[i]];
        ordered.dilation[i] = problem.dilation[order[i]];
    }
    return ordered;
}

Answer<Kernel> answer_columns(const Problem& problem, const Epilogue& epilogue) {
    const auto prepare = [ordered = with_dimensions_last(problem), epilogue] {
        return prepare_columns(ordered, epilogue);
    };
    return {"", {{"", 0, prepare}}};
}

} // namespace tconv3d::cpu
