// tconv3d_fit FILE [--form streamed|gathered]: fits the cost models of the tensor-core kernels to times that
// `python -m tconv3d tune --record FILE` has measured. Prints errors and constants; progress goes to stderr.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "fit/fit.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::fit {
namespace {

using cuda::tensorcore::Form;
using cuda::tensorcore::GatheredModel;
using cuda::tensorcore::StreamedModel;

struct Options {
    std::string file;
    bool streamed = true;
    bool gathered = true;
};

Options parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        if (argument != "--form") {
            if (argument.empty() || argument[0] == '-') throw Error("unknown option '" + argument + "'");
            if (!options.file.empty()) throw Error("takes one file, got " + options.file + " and " + argument);
            options.file = argument;
            continue;
        }
        const std::string form = i + 1 < count ? arguments[++i] : "";
        if (form != "streamed" && form != "gathered")
            throw Error("--form takes streamed or gathered, got '" + form + "'");
        options.streamed = form == "streamed";
        options.gathered = form == "gathered";
    }
    if (options.file.empty()) throw Error("takes the file that `python -m tconv3d tune --record FILE` has written");
    return options;
}

Samples read(const std::string& path, Form form) {
    std::ifstream file(path);
    if (!file) throw Error("cannot read " + path);
    return read_samples(file, form, [](size_t lines) {
        if (lines % 20 == 0) std::fprintf(stderr, "\r%zu lines read", lines);
    });
}

template <typename Model>
void print_errors(const char* when, const std::vector<Sample>& samples, const Model& model) {
    constexpr size_t kWorst = 5;
    std::printf("%s: mean absolute log error %.4f; the worst:\n", when, mean_absolute_log_error(samples, model));
    std::vector<const Sample*> worst;
    worst.reserve(samples.size());
    for (const Sample& sample : samples) worst.push_back(&sample);
    std::sort(worst.begin(), worst.end(), [&](const Sample* a, const Sample* b) {
        return std::abs(log_error(*a, model)) > std::abs(log_error(*b, model));
    });
    worst.resize(std::min(worst.size(), kWorst));
    for (const Sample* sample : worst)
        std::printf("  %+.3f  measured %.4g µs, estimated %.4g µs: %s\n", log_error(*sample, model),
                    sample->microseconds, estimated_microseconds(*sample, model), sample->name().c_str());
}

void print_constants(const std::vector<Fitted>& fitted) {
    std::printf("constants:\n");
    for (const Fitted& constant : fitted) {
        const bool changed = constant.after != constant.before, untold = !constant.constrained && constant.after != 0;
        std::printf("  %s = %.10g;%s", constant.name.c_str(), constant.after, changed || untold ? " //" : "");
        if (changed) std::printf(" was %.10g%s", constant.before, untold ? "," : "");
        std::printf("%s\n", untold ? " the times do not tell" : "");
    }
}

template <typename Model>
void fit_form(const char* name, const std::string& path, Form form) {
    const Samples samples = read(path, form);
    std::fprintf(stderr, "\r%zu lines read\n", samples.lines);
    std::printf("%s: %zu times of %zu lines, %zu of other kernels, %zu of candidates that there are not\n", name,
                samples.list.size(), samples.lines, samples.others, samples.unknown);
    if (samples.list.empty()) return;
    Model model;
    print_errors("before", samples.list, model);
    const std::vector<Fitted> fitted =
        fit(samples.list, model, [](const std::string& round) { std::fprintf(stderr, "%s\n", round.c_str()); });
    print_errors("after", samples.list, model);
    print_constants(fitted);
}

void run(const Options& options) {
    if (options.streamed) fit_form<StreamedModel>("StreamedModel", options.file, Form::streamed);
    if (options.gathered) fit_form<GatheredModel>("GatheredModel", options.file, Form::gathered);
}

} // namespace
} // namespace tconv3d::fit

int main(int count, char** arguments) {
    try {
        tconv3d::fit::run(tconv3d::fit::parse(count, arguments));
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tconv3d_fit: %s\n", error.what());
        return 1;
    }
}
