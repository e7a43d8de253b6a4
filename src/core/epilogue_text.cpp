// The one-line language of epilogues: printing and parsing.
#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "number_text.hpp"
#include "step_table.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// In the order of StepKind. Defaults are PyTorch's.
constexpr StepSpec kSpecs[] = {
    {StepKind::add, "add", 1, 1, {"v", ""}, {0, 0}},
    {StepKind::mul, "mul", 1, 1, {"v", ""}, {0, 0}},
    {StepKind::div, "div", 1, 1, {"v", ""}, {0, 0}},
    {StepKind::clamp, "clamp", 2, 0, {"min", "max"}, {-kInfinity, kInfinity}},
    {StepKind::relu, "relu", 0, 0, {"", ""}, {0, 0}},
    {StepKind::leaky_relu, "leaky_relu", 1, 0, {"slope", ""}, {0.01, 0}},
    {StepKind::elu, "elu", 1, 0, {"alpha", ""}, {1, 0}},
    {StepKind::silu, "silu", 0, 0, {"", ""}, {0, 0}},
    {StepKind::gelu, "gelu", 0, 0, {"", ""}, {0, 0}},
    {StepKind::gelu_tanh, "gelu_tanh", 0, 0, {"", ""}, {0, 0}},
    {StepKind::sigmoid, "sigmoid", 0, 0, {"", ""}, {0, 0}},
    {StepKind::tanh, "tanh", 0, 0, {"", ""}, {0, 0}},
    {StepKind::hardswish, "hardswish", 0, 0, {"", ""}, {0, 0}},
    {StepKind::softplus, "softplus", 2, 0, {"beta", "threshold"}, {1, 20}},
    {StepKind::mish, "mish", 0, 0, {"", ""}, {0, 0}},
    {StepKind::channel_add, "channel_add", 0, 0, {"", ""}, {0, 0}},
    {StepKind::channel_mul, "channel_mul", 0, 0, {"", ""}, {0, 0}},
    {StepKind::residual_add, "residual_add", 0, 0, {"", ""}, {0, 0}},
    {StepKind::residual_mul, "residual_mul", 0, 0, {"", ""}, {0, 0}},
};

std::string_view trim(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
    return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Reads steps off the front of a text.
class EpilogueReader {
public:
    explicit EpilogueReader(std::string_view text) : text_(text), rest_(trim(text)) {}

    Epilogue read() {
        std::vector<Step> steps;
        while (!rest_.empty()) steps.push_back(read_step());
        return Epilogue(std::move(steps));
    }

private:
    Step read_step() {
        const size_t end = std::min(rest_.find_first_of("( \t\r\n"), rest_.size());
        const std::string_view word = rest_.substr(0, end);
        const StepSpec* spec = find_step_spec(word);
        if (spec == nullptr) fail("unknown step", word);
        rest_.remove_prefix(end);
        const bool has_list = !rest_.empty() && rest_.front() == '(';
        const Step step = read_constants(*spec, has_list ? take_list(word) : std::string_view());
        rest_ = trim(rest_);
        return step;
    }

    /// The text between the parentheses that open here; what follows must be a blank.
    std::string_view take_list(std::string_view word) {
        const size_t close = rest_.find(')');
        if (close == std::string_view::npos) fail("missing ) after", word);
        const std::string_view list = rest_.substr(1, close - 1);
        rest_.remove_prefix(close + 1);
        if (!rest_.empty() && trim(rest_.substr(0, 1)).size() == 1) fail("missing blank before", rest_);
        return list;
    }

    Step read_constants(const StepSpec& spec, std::string_view list) {
        double values[] = {spec.defaults[0], spec.defaults[1]};
        bool given[] = {false, false};
        list = trim(list);
        for (int position = 0; !list.empty(); ++position) {
            const size_t end = std::min(list.find(','), list.size());
            const std::string_view item = trim(list.substr(0, end));
            const size_t equals = item.find('=');
            const bool named = equals != std::string_view::npos;
            const int index = named ? find_constant(spec, trim(item.substr(0, equals)), item) : position;
            if (index >= spec.constants) fail(std::string("too many constants for ") + spec.name + ":", item);
            if (given[index]) fail(std::string(spec.constant_names[index]) + " is given twice:", item);
            given[index] = true;
            values[index] = read_number(named ? trim(item.substr(equals + 1)) : item);
            const bool more = end < list.size();
            list = more ? trim(list.substr(end + 1)) : std::string_view();
            if (more && list.empty()) fail("missing constant after", item);
        }
        for (int i = 0; i < spec.required; ++i)
            if (!given[i]) fail(std::string("missing constant ") + spec.constant_names[i] + " of", spec.name);
        return {spec.kind, values[0], values[1]};
    }

    int find_constant(const StepSpec& spec, std::string_view constant, std::string_view item) const {
        for (int i = 0; i < spec.constants; ++i)
            if (constant == spec.constant_names[i]) return i;
        fail(std::string(spec.name) + " has no such constant:", item);
    }

    double read_number(std::string_view text) const {
        double value = 0;
        const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
        if (result.ec == std::errc::result_out_of_range) fail("number out of range:", text);
        if (result.ec != std::errc() || result.ptr != text.data() + text.size()) fail("not a number:", text);
        return value;
    }

    [[noreturn]] void fail(const std::string& why, std::string_view word) const {
        throw Error("epilogue '" + std::string(text_) + "': " + why + " '" + std::string(word) + "'");
    }

    std::string_view text_;
    std::string_view rest_;
};

} // namespace

const StepSpec& step_spec(StepKind kind) {
    return kSpecs[static_cast<size_t>(kind)];
}

const StepSpec* find_step_spec(std::string_view name) {
    for (const StepSpec& spec : kSpecs)
        if (name == spec.name) return &spec;
    return nullptr;
}

std::string str(const Step& step) {
    const StepSpec& spec = step_spec(step.kind);
    if (spec.constants == 0) return spec.name;
    std::string list;
    if (step.kind == StepKind::clamp) {
        // An infinite bound is an absent one.
        if (step.a != -kInfinity) list = "min=" + shortest(step.a);
        if (step.b != kInfinity) list += (list.empty() ? "max=" : ",max=") + shortest(step.b);
    } else {
        list = shortest(step.a) + (spec.constants == 2 ? "," + shortest(step.b) : "");
    }
    return std::string(spec.name) + "(" + list + ")";
}

Epilogue Epilogue::parse(std::string_view text) {
    return EpilogueReader(text).read();
}

std::string Epilogue::str() const {
    std::string text;
    for (const Step& step : steps_) text += (text.empty() ? "" : " ") + tconv3d::str(step);
    return text;
}

} // namespace tconv3d
