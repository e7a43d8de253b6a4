// Fitting the cost models: that no constant is left out, what a file of times means, and that constants are found
// again.
#include "fit/fit.hpp"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "made_up_devices.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::fit {
namespace {

using cuda::tensorcore::best_tilings;
using cuda::tensorcore::Engine;
using cuda::tensorcore::Form;
using cuda::tensorcore::GatheredModel;
using cuda::tensorcore::StreamedModel;
using cuda::tensorcore::Tiling;
using testing::kHopper;

template <typename Model>
void expect_all_constants() {
    Model model;
    std::set<const double*> values;
    std::set<std::string> names;
    for (const Constant& constant : constants(model)) {
        EXPECT_TRUE(values.insert(constant.value).second) << constant.name;
        EXPECT_TRUE(names.insert(constant.name).second) << constant.name;
        const auto* byte = reinterpret_cast<const char*>(constant.value);
        const auto* begin = reinterpret_cast<const char*>(&model);
        EXPECT_TRUE(byte >= begin && byte < begin + sizeof(model)) << constant.name;
    }
    EXPECT_EQ(values.size() * sizeof(double), sizeof(model));
}

TEST(Fit, EachConstantIsListedOnce) {
    expect_all_constants<StreamedModel>();
    expect_all_constants<GatheredModel>();
}

TEST(Fit, ALineIsAFlatObject) {
    const auto members = parse_flat_json(R"( {"a": "x, \"y\" \\ }", "b":-1.5e-3 ,"c" : ""} )");
    EXPECT_EQ(members, (std::map<std::string, std::string>{{"a", "x, \"y\" \\ }"}, {"b", "-1.5e-3"}, {"c", ""}}));
    for (const char* wrong : {"", "{", R"({"a": 1)", R"({"a" 1})", R"({"a": })", R"({"a": 1} 2)", R"({"a": "b)",
                              R"({"a": "\n"})", R"({"a": [1]})", R"({"a": "\)"})
        EXPECT_THROW(parse_flat_json(wrong), Error) << wrong;
}

const char* const kProblem = "n4 ci32 co32 8x16x16 k3 s2 p1 op1 bf16";

std::string line(const std::string& implementation, const std::string& candidate, const std::string& ms) {
    return std::string(R"({"problem": ")") + kProblem + R"(", "implementation": ")" + implementation +
           R"(", "candidate": ")" + candidate + R"(", "ms": )" + ms +
           R"(, "device": "made up", "sm": 90, "multiprocessors": 132, "shared_memory_per_block": 232448})" + "\n";
}

Samples read(const std::string& text, Form form) {
    std::istringstream file(text);
    return read_samples(file, form, [](size_t) {});
}

std::vector<Tiling> tilings(const std::string& problem, Engine engine, Form form, size_t most) {
    return best_tilings(Problem::parse(problem), kHopper, engine, form, most);
}

TEST(Fit, LinesAreTheTimesOfConfigs) {
    const Tiling streamed = tilings(kProblem, Engine::wgmma, Form::streamed, 3).back();
    const Tiling mma = tilings(kProblem, Engine::mma, Form::streamed, 3).back();
    const Tiling gathered = tilings(kProblem, Engine::wgmma, Form::gathered, 3).back();
    const std::string text = line("stream", streamed.name(), "0.25") + line("direct", "", "1") +
                             line("mma", mma.name(), "0.5") + line("gather", gathered.name(), "0.125") +
                             line("stream", "no such candidate", "1");
    const Samples some = read(text, Form::streamed);
    EXPECT_EQ(some.lines, 5u);
    EXPECT_EQ(some.others, 2u);
    EXPECT_EQ(some.unknown, 1u);
    ASSERT_EQ(some.list.size(), 2u);
    EXPECT_EQ(some.list[0].microseconds, 250);
    EXPECT_EQ(some.list[0].name(), Problem::parse(kProblem).str() + ", stream: " + streamed.name());
    EXPECT_EQ(some.list[1].tiling.config.engine, Engine::mma);
    // The model's defaults estimate what selection does.
    EXPECT_EQ(estimated_microseconds(some.list[0], StreamedModel()), streamed.config.schedule.microseconds());
    EXPECT_EQ(estimated_microseconds(some.list[1], StreamedModel()), mma.config.schedule.microseconds());
    const Samples other = read(text, Form::gathered);
    ASSERT_EQ(other.list.size(), 1u);
    EXPECT_EQ(estimated_microseconds(other.list[0], GatheredModel()), gathered.config.schedule.microseconds());
}

TEST(Fit, AWrongLineIsNamed) {
    const std::string right = line("stream", "x", "1");
    const auto message = [&](const std::string& wrong) -> std::string {
        try {
            read(right + wrong, Form::streamed);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(message("{}\n").rfind("line 2: expected '\"'", 0), 0u) << message("{}\n");
    EXPECT_EQ(message(R"({"a": 1})"), "line 2: there is no \"implementation\"");
    const std::string name = tilings(kProblem, Engine::wgmma, Form::streamed, 1).front().name();
    EXPECT_EQ(message(line("stream", name, "0")), "line 2: \"ms\" is no positive number: 0");
}

/// Some configs of problems in some modes, with the times that a model gives.
template <typename Model>
std::vector<Sample> made_up_samples(Form form, const std::vector<const char*>& modes, const Model& truth) {
    std::vector<Sample> samples;
    for (const char* shape :
         {"n8 ci64 co64 16x32x32 k3 s2 p1 ", "n2 ci32 co16 8x24x40 k3 p1 ", "n1 ci16 co32 8x8x8 k4 s2 ",
          "n4 ci128 co128 8x32x32 k3 ", "n4 ci32 co256 4x16x16 k5 p2 ", "n2 ci16 co64 32x64x64 k2 s2 "}) {
        for (const char* mode : modes) {
            const std::string problem = std::string(shape) + mode;
            for (const Tiling& tiling : tilings(problem, Engine::wgmma, form, 12)) {
                Sample sample{Problem::parse(problem), tiling, "", kHopper.multiprocessors, 0};
                sample.microseconds = estimated_microseconds(sample, truth);
                samples.push_back(std::move(sample));
            }
        }
    }
    return samples;
}

template <typename Model>
std::map<std::string, Fitted> expect_fits(const std::vector<Sample>& samples, Model& model) {
    const double before = mean_squared_log_error(samples, model);
    std::map<std::string, Fitted> by_name;
    for (const Fitted& constant : fit(samples, model, [](const std::string&) {})) by_name[constant.name] = constant;
    EXPECT_GT(before, 1e-3);
    EXPECT_LT(mean_squared_log_error(samples, model), before / 100);
    return by_name;
}

TEST(Fit, ConstantsOfTheStreamedFormAreFoundAgain) {
    StreamedModel truth;
    truth.product.column *= 1.4;
    truth.store.bytes_per_clock *= 0.7;
    truth.input.swizzled.wait *= 3;
    StreamedModel model;
    auto fitted = expect_fits(made_up_samples(Form::streamed, {"bf16", "bf16 ndhwc"}, truth), model);
    EXPECT_NEAR(model.product.column / truth.product.column, 1, 0.05);
    EXPECT_NEAR(model.store.bytes_per_clock / truth.store.bytes_per_clock, 1, 0.05);
    EXPECT_EQ(fitted["product.column"].before, StreamedModel().product.column);
    EXPECT_EQ(fitted["product.column"].after, model.product.column);
    EXPECT_TRUE(fitted["product.column"].constrained);
    // There are no samples of mma.sync or fp32, and what is 0 stays.
    for (const char* name : {"product.mma", "product.split", "split.core_row", "swizzled.raw_row"}) {
        EXPECT_EQ(fitted[name].after, fitted[name].before) << name;
        EXPECT_FALSE(fitted[name].constrained) << name;
    }
}

TEST(Fit, ConstantsOfTheGatheredFormAreFoundAgain) {
    GatheredModel truth;
    truth.product.column *= 1.5;
    truth.slice *= 0.5;
    GatheredModel model;
    auto fitted = expect_fits(made_up_samples(Form::gathered, {"bf16 ndhwc", "f32 tf32"}, truth), model);
    EXPECT_NEAR(model.product.column / truth.product.column, 1, 0.05);
    EXPECT_NEAR(model.slice / truth.slice, 1, 0.1);
    EXPECT_TRUE(fitted["slice"].constrained);
    EXPECT_FALSE(fitted["input.halves_row"].constrained);
}

} // namespace
} // namespace tconv3d::fit
