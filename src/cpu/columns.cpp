#include "columns.hpp"

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

Answer<Kernel> answer_columns(const Problem& problem, const Epilogue& epilogue) {
    return {"", {{"", 0, [problem, epilogue] { return prepare_columns(problem, epilogue); }}}};
}

} // namespace tconv3d::cpu
