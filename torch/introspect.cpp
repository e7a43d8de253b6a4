#include <torch/library.h>
#include <torch/version.h>

#include "cpu/isa.hpp"
#include "cpu/planes.hpp"
#include "ops.hpp"
#include "tconv3d/plan.hpp"

/// What the library says about itself, as text and JSON, for the Python package.
namespace tconv3d::ops {

namespace {

std::string_view view(Text text) {
    return {text.data(), text.size()};
}

/// The texts here are names and numbers of our own: none holds a character that JSON escapes.
std::string quoted(const std::string& text) {
    return '"' + text + '"';
}

std::string member(const char* key, const std::string& json) {
    return quoted(key) + ": " + json;
}

std::string member(const char* key, int64_t value) {
    return member(key, std::to_string(value));
}

std::string joined(const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
    return text;
}

std::string array(const Extents& extents) {
    return "[" + std::to_string(extents[0]) + ", " + std::to_string(extents[1]) + ", " + std::to_string(extents[2]) +
           "]";
}

/// Whole numbers, in double because they may exceed 64 bits.
std::string whole(double value) {
    std::string text = std::to_string(value);
    return text.substr(0, text.find('.'));
}

std::string explain(Text problem, Text epilogue) {
    return translating_errors(
        [&] { return Plan(Problem::parse(view(problem)), Epilogue::parse(view(epilogue))).explain(); });
}

std::string machine() {
    std::vector<std::string> names;
    for (const std::string& implementation : implementations()) names.push_back(quoted(implementation));
    const std::string isa = translating_errors([] { return std::string(cpu::name(cpu::chosen_isa())); });
    return "{" +
           joined({member("version", quoted(TCONV3D_VERSION)), member("torch_built_with", quoted(TORCH_VERSION)),
                   member("isas", cpu::machine_json_isas()), member("isa", quoted(isa)),
                   member("implementations", "[" + joined(names) + "]")}) +
           "}";
}

std::string facts(const Problem& problem) {
    problem.validate();
    return "{" +
           joined({member("problem", quoted(problem.str())), member("batch", problem.batch),
                   member("src_channels", problem.src_channels), member("dst_channels", problem.dst_channels),
                   member("src", array(problem.src)), member("dst", array(problem.dst())),
                   member("kernel", array(problem.kernel)), member("stride", array(problem.stride)),
                   member("padding", array(problem.padding)), member("output_padding", array(problem.output_padding)),
                   member("dilation", array(problem.dilation)), member("groups", problem.groups),
                   member("dtype", quoted(name(problem.dtype))), member("layout", quoted(name(problem.layout))),
                   member("direction", quoted(name(problem.direction))), member("flops", whole(problem.flops())),
                   member("bytes", whole(problem.bytes()))}) +
           "}";
}

std::string problem_facts(Text problem) {
    return translating_errors([&] { return facts(Problem::parse(view(problem))); });
}

} // namespace

TORCH_LIBRARY_IMPL(tconv3d, CompositeExplicitAutograd, m) {
    m.impl("explain", explain);
    m.impl("machine", machine);
    m.impl("problem_facts", problem_facts);
}

} // namespace tconv3d::ops
