// Plan::explain(): what will run and why, for people.
#include "explain_text.hpp"

namespace tconv3d {

namespace {

std::string describe_workspace(const Plan& plan) {
    const size_t alone = plan.workspace_bytes(1);
    const size_t pair = plan.workspace_bytes(2);
    std::string text = with_prefix(static_cast<double>(alone), "B");
    if (pair > alone)
        text += ", and " + with_prefix(static_cast<double>(pair - alone), "B") + " for each further worker";
    return text;
}

} // namespace

std::string Plan::explain() const {
    return explain_problem(problem_, epilogue_) +
           explain_line("implementation", implementation_ + ": " + kernel_->describe()) +
           explain_line("workspace", describe_workspace(*this)) + explain_rejections(rejections_);
}

} // namespace tconv3d
