#include "explain_text.hpp"

#include <iterator>

#include "number_text.hpp"

namespace tconv3d {
namespace {

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

} // namespace

std::string with_prefix(double value, const char* unit) {
    constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t prefix = 0;
    for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
    return with_digits(value, 4) + " " + kPrefixes[prefix] + unit;
}

std::string explain_line(const std::string& label, const std::string& text) {
    constexpr size_t kLabelWidth = 16;
    return label + std::string(label.size() < kLabelWidth ? kLabelWidth - label.size() : 1, ' ') + text + "\n";
}

std::string explain_problem(const Problem& problem, const Epilogue& epilogue) {
    const double flops = problem.flops();
    const double bytes = problem.bytes();
    const std::string intensity = with_digits(bytes > 0 ? flops / bytes : 0.0, 4) + " flop/B";
    return explain_line("problem", problem.str()) + explain_line("dst", str(problem.dst())) +
           explain_line("flops", with_prefix(flops, "flop")) + explain_line("bytes", with_prefix(bytes, "B")) +
           explain_line("intensity", intensity) + explain_line("epilogue", describe(epilogue));
}

std::string explain_rejections(const std::vector<Rejection>& rejections) {
    std::string text;
    for (const Rejection& rejection : rejections)
        text += explain_line("passed over", rejection.implementation + ": " + rejection.reason);
    return text;
}

} // namespace tconv3d
