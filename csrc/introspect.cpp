#include <torch/library.h>
#include <torch/version.h>

#include "core/number_text.hpp"
#include "cpu/isa.hpp"
#include "cpu/planes.hpp"
#include "json.hpp"
#include "ops.hpp"
#include "tconv3d/plan.hpp"

/// What the library says about itself, as text and JSON, for the Python package.
namespace tconv3d::ops {

namespace {

std::string array_of(const Extents& extents) {
    return array({std::to_string(extents[0]), std::to_string(extents[1]), std::to_string(extents[2])});
}

std::string explain(Text problem, Text epilogue) {
    return translating_errors(
        [&] { return Plan(Problem::parse(view(problem)), Epilogue::parse(view(epilogue))).explain(); });
}

std::string machine() {
    const std::string isa = translating_errors([] { return std::string(cpu::name(cpu::chosen_isa())); });
    return object({member("version", quote(TCONV3D_VERSION)), member("torch_built_with", quote(TORCH_VERSION)),
                   member("isas", cpu::machine_json_isas()), member("isa", quote(isa)),
                   member("implementations", names(implementations()))});
}

std::string facts(const Problem& problem) {
    problem.validate();
    return object({member("problem", quote(problem.str())), member("batch", problem.batch),
                   member("src_channels", problem.src_channels), member("dst_channels", problem.dst_channels),
                   member("src", array_of(problem.src)), member("dst", array_of(problem.dst())),
                   member("kernel", array_of(problem.kernel)), member("stride", array_of(problem.stride)),
                   member("padding", array_of(problem.padding)),
                   member("output_padding", array_of(problem.output_padding)),
                   member("dilation", array_of(problem.dilation)), member("groups", problem.groups),
                   member("dtype", quote(name(problem.dtype))), member("layout", quote(name(problem.layout))),
                   member("direction", quote(name(problem.direction))), member("flops", whole(problem.flops())),
                   member("bytes", whole(problem.bytes()))});
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
