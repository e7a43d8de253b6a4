#include "fit/samples.hpp"

#include <cctype>
#include <cstdlib>
#include <limits>
#include <optional>

#include "tconv3d/error.hpp"

namespace tconv3d::fit {

using namespace cuda::tensorcore;

namespace {

/// Reads one line from its beginning to its end.
class FlatJson {
public:
    explicit FlatJson(const std::string& text) : text_(text) {}

    std::map<std::string, std::string> members() {
        std::map<std::string, std::string> all;
        expect('{');
        do {
            const std::string key = string();
            expect(':');
            all[key] = next() == '"' ? string() : number();
        } while (take(','));
        expect('}');
        if (next() != '\0') fail("the end");
        return all;
    }

private:
    /// The next character that is no blank, which stays; 0 at the end.
    char next() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    bool take(char wanted) {
        if (next() != wanted) return false;
        ++at_;
        return true;
    }

    void expect(char wanted) {
        if (!take(wanted)) fail(std::string("'") + wanted + "'");
    }

    std::string string() {
        expect('"');
        std::string value;
        while (at_ < text_.size() && text_[at_] != '"') {
            if (text_[at_] == '\\') escape();
            if (at_ < text_.size()) value += text_[at_++];
        }
        expect('"');
        return value;
    }

    /// Leaves the character that is meant as the next one.
    void escape() {
        ++at_;
        if (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') fail("'\"' or '\\' behind a '\\'");
    }

    std::string number() {
        const char* begin = text_.c_str() + at_;
        char* end = nullptr;
        std::strtod(begin, &end);
        if (end == begin) fail("a string or a number");
        const size_t first = at_;
        at_ += static_cast<size_t>(end - begin);
        return text_.substr(first, at_ - first);
    }

    [[noreturn]] void fail(const std::string& expected) const {
        throw Error("expected " + expected + " at character " + std::to_string(at_ + 1) + " of '" + text_ + "'");
    }

    const std::string& text_;
    size_t at_ = 0;
};

/// A line of the file.
class Line {
public:
    explicit Line(const std::string& text) : members_(parse_flat_json(text)) {}

    const std::string& text(const char* key) const {
        const auto found = members_.find(key);
        if (found == members_.end()) throw Error(std::string("there is no \"") + key + "\"");
        return found->second;
    }

    double positive(const char* key) const {
        const double value = std::strtod(text(key).c_str(), nullptr);
        if (!(value > 0)) throw Error(std::string("\"") + key + "\" is no positive number: " + text(key));
        return value;
    }

    /// With the numbers that configs depend on; the others are 0.
    cuda::Device device() const {
        return {0,
                text("device"),
                static_cast<int>(positive("sm")),
                static_cast<int>(positive("multiprocessors")),
                static_cast<int64_t>(positive("shared_memory_per_block")),
                0,
                0};
    }

private:
    std::map<std::string, std::string> members_;
};

struct Family {
    Engine engine;
    Form form;
};

/// By the label of the implementation; none for those without tensor cores.
std::optional<Family> family(const std::string& implementation) {
    if (implementation == "stream") return Family{Engine::wgmma, Form::streamed};
    if (implementation == "gather") return Family{Engine::wgmma, Form::gathered};
    if (implementation == "mma") return Family{Engine::mma, Form::streamed};
    return std::nullopt;
}

/// The tilings of a problem by name. Lines of one problem are neighbours, so that the last ones are kept.
class Tilings {
public:
    /// Null when there is none of the name.
    const Tiling* find(const Line& line, const Family& of, const Problem& problem) {
        const cuda::Device device = line.device();
        std::string key = device.name + "; " + line.text("implementation") + "; " + problem.str();
        if (key != key_) {
            by_name_.clear();
            constexpr size_t kAll = std::numeric_limits<size_t>::max();
            for (Tiling& tiling : best_tilings(problem, device, of.engine, of.form, kAll))
                by_name_.emplace(tiling.name(), std::move(tiling));
            key_ = std::move(key);
        }
        const auto found = by_name_.find(line.text("candidate"));
        return found == by_name_.end() ? nullptr : &found->second;
    }

private:
    std::string key_;
    std::map<std::string, Tiling> by_name_;
};

void add_sample(Samples& samples, const std::string& text, Form form, Tilings& tilings) {
    const Line line(text);
    const std::optional<Family> of = family(line.text("implementation"));
    if (!of || of->form != form) {
        ++samples.others;
        return;
    }
    const Problem problem = Problem::parse(line.text("problem"));
    const Tiling* tiling = tilings.find(line, *of, problem);
    if (tiling == nullptr) {
        ++samples.unknown;
        return;
    }
    samples.list.push_back(
        {problem, *tiling, line.text("implementation"), line.device().multiprocessors, 1e3 * line.positive("ms")});
}

} // namespace

std::string Sample::name() const {
    return problem.str() + ", " + implementation + ": " + tiling.name();
}

std::map<std::string, std::string> parse_flat_json(const std::string& line) {
    return FlatJson(line).members();
}

Samples read_samples(std::istream& file, Form form, const std::function<void(size_t)>& report) {
    Samples samples;
    Tilings tilings;
    for (std::string text; std::getline(file, text);) {
        try {
            add_sample(samples, text, form, tilings);
        } catch (const Error& error) {
            throw Error("line " + std::to_string(samples.lines + 1) + ": " + error.what());
        }
        report(++samples.lines);
    }
    return samples;
}

double estimated_microseconds(const Sample& sample, const StreamedModel& model) {
    Config config = sample.tiling.config;
    estimate_streamed(config, sample.problem, sample.tiling.tables, sample.multiprocessors, model);
    return config.schedule.microseconds();
}

double estimated_microseconds(const Sample& sample, const GatheredModel& model) {
    Config config = sample.tiling.config;
    estimate_gathered(config, sample.problem, sample.tiling.tables, sample.multiprocessors, model);
    return config.schedule.microseconds();
}

} // namespace tconv3d::fit
