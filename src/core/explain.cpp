// Plan::explain(): what will run and why, for people.
#include <cstdio>

#include "tconv3d/plan.hpp"

namespace tconv3d {

namespace {

/// `4.187 G` for 4187000000.
std::string with_prefix(double value, const char* unit) {
    constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t prefix = 0;
    for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.4g %s%s", value, kPrefixes[prefix], unit);
    return buffer;
}

std::string line(const std::string& label, const std::string& text) {
    constexpr size_t kLabelWidth = 16;
    return label + std::string(label.size() < kLabelWidth ? kLabelWidth - label.size() : 1, ' ') + text + "\n";
}

std::string describe(const Epilogue& epilogue) {
    if (epilogue.empty()) return "none";
    switch (epilogue.saved()) {
    case Saved::nothing:
        return epilogue.str() + "; backward keeps nothing";
    case Saved::output:
        return epilogue.str() + "; backward keeps dst";
    case Saved::preactivation:
        return epilogue.str() + "; backward keeps the preactivation";
    }
    return epilogue.str();
}

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
    const double flops = problem_.flops();
    const double bytes = problem_.bytes();
    char intensity[32];
    std::snprintf(intensity, sizeof intensity, "%.4g flop/B", bytes > 0 ? flops / bytes : 0.0);
    std::string text = line("problem", problem_.str()) + line("dst", str(problem_.dst())) +
                       line("flops", with_prefix(flops, "flop")) + line("bytes", with_prefix(bytes, "B")) +
                       line("intensity", intensity) + line("epilogue", describe(epilogue_)) +
                       line("implementation", implementation_ + ": " + kernel_->describe()) +
                       line("workspace", describe_workspace(*this));
    for (const Rejection& rejection : rejections_)
        text += line("passed over", rejection.implementation + ": " + rejection.reason);
    return text;
}

} // namespace tconv3d
