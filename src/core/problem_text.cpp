// The one-line language of problems: printing and parsing.
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tconv3d/error.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";

constexpr std::pair<std::string_view, int64_t Problem::*> kNumbers[] = {
    {"n", &Problem::batch}, {"ci", &Problem::src_channels}, {"co", &Problem::dst_channels}, {"g", &Problem::groups}};

/// The extents of src stand without a key.
constexpr std::pair<std::string_view, Extents Problem::*> kExtents[] = {
    {"", &Problem::src},      {"k", &Problem::kernel},          {"s", &Problem::stride},
    {"p", &Problem::padding}, {"op", &Problem::output_padding}, {"d", &Problem::dilation}};

/// Reads the words of a line into a problem, each at most once.
class ProblemReader {
public:
    explicit ProblemReader(std::string_view line) : line_(line) {}

    Problem read() {
        size_t end = 0;
        for (size_t begin; (begin = line_.find_first_not_of(kBlanks, end)) != std::string_view::npos;) {
            end = std::min(line_.find_first_of(kBlanks, begin), line_.size());
            read_word(line_.substr(begin, end - begin));
        }
        require("ci", "ci, the channels of src");
        require("co", "co, the channels of dst");
        require("", "the extents of src, such as 8x8x8");
        require("k", "k, the kernel");
        return problem_;
    }

private:
    void read_word(std::string_view word) {
        if (read_name(word)) return;
        const size_t digits = word.find_first_of("-0123456789");
        if (digits == std::string_view::npos) fail(word, "is not a word of the problem language");
        const std::string_view key = word.substr(0, digits);
        const std::string_view value = word.substr(digits);
        for (const auto& [known, field] : kNumbers)
            if (key == known) return read_number(word, key, value, problem_.*field);
        for (const auto& [known, field] : kExtents)
            if (key == known) return read_extents(word, key, value, problem_.*field);
        fail(word, "is not a word of the problem language");
    }

    bool read_name(std::string_view word) {
        return one_of(word, "dtype", problem_.dtype, {DType::f32, DType::f64, DType::bf16, DType::f16}) ||
               one_of(word, "layout", problem_.layout, {Layout::ncdhw, Layout::ndhwc}) ||
               one_of(word, "direction", problem_.direction,
                      {Direction::fwd, Direction::bwd_data, Direction::bwd_weight}) ||
               one_of(word, "math mode", problem_.math, {MathMode::full, MathMode::tf32});
    }

    template <typename Enum>
    bool one_of(std::string_view word, std::string_view what, Enum& field, std::initializer_list<Enum> values) {
        for (Enum value : values) {
            if (word != name(value)) continue;
            mark(word, what);
            field = value;
            return true;
        }
        return false;
    }

    void read_number(std::string_view word, std::string_view key, std::string_view text, int64_t& field) {
        mark(word, key);
        if (!take_number(text, field) || !text.empty()) fail(word, "is not a key and an integer");
    }

    void read_extents(std::string_view word, std::string_view key, std::string_view text, Extents& field) {
        mark(word, key);
        bool good = take_number(text, field[0]);
        field[1] = field[2] = field[0];
        if (good && !text.empty())
            good = take_cross(text) && take_number(text, field[1]) && take_cross(text) && take_number(text, field[2]) &&
                   text.empty();
        if (!good) fail(word, "is neither one integer nor three joined by x");
    }

    static bool take_number(std::string_view& text, int64_t& field) {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field);
        if (error != std::errc()) return false;
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        return true;
    }

    static bool take_cross(std::string_view& text) {
        if (text.empty() || text.front() != 'x') return false;
        text.remove_prefix(1);
        return true;
    }

    bool seen(std::string_view what) const {
        for (std::string_view other : seen_)
            if (other == what) return true;
        return false;
    }

    void require(std::string_view key, const char* what) const {
        if (!seen(key)) throw Error("problem '" + std::string(line_) + "' lacks " + what);
    }

    void mark(std::string_view word, std::string_view what) {
        if (seen(what)) fail(word, "gives " + (what.empty() ? "src" : std::string(what)) + " a second time");
        seen_.push_back(what);
    }

    [[noreturn]] void fail(std::string_view word, const std::string& why) const {
        throw Error("problem '" + std::string(line_) + "': '" + std::string(word) + "' " + why);
    }

    std::string_view line_;
    std::vector<std::string_view> seen_;
    Problem problem_;
};

} // namespace

const char* name(DType dtype) {
    switch (dtype) {
    case DType::f32:
        return "f32";
    case DType::f64:
        return "f64";
    case DType::bf16:
        return "bf16";
    case DType::f16:
        return "f16";
    }
    return "unknown dtype";
}

const char* name(Layout layout) {
    return layout == Layout::ncdhw ? "ncdhw" : "ndhwc";
}

const char* name(Direction direction) {
    switch (direction) {
    case Direction::fwd:
        return "fwd";
    case Direction::bwd_data:
        return "bwd_data";
    case Direction::bwd_weight:
        return "bwd_weight";
    }
    return "unknown direction";
}

const char* name(MathMode math) {
    return math == MathMode::full ? "full" : "tf32";
}

std::string str(const Extents& extents) {
    if (extents[0] == extents[1] && extents[1] == extents[2]) return std::to_string(extents[0]);
    return std::to_string(extents[0]) + "x" + std::to_string(extents[1]) + "x" + std::to_string(extents[2]);
}

std::string Problem::str() const {
    const auto field = [](const char* key, const auto& value) { return std::string(" ") + key + value; };
    const auto three = [](const Extents& e) {
        return std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]);
    };
    std::string text = "n" + std::to_string(batch) + field("ci", std::to_string(src_channels)) +
                       field("co", std::to_string(dst_channels)) + field("", three(src)) +
                       field("k", tconv3d::str(kernel)) + field("s", tconv3d::str(stride)) +
                       field("p", tconv3d::str(padding)) + field("op", tconv3d::str(output_padding)) +
                       field("d", tconv3d::str(dilation)) + field("g", std::to_string(groups)) + field("", name(dtype));
    if (math != MathMode::full) text += field("", name(math));
    return text + field("", name(layout)) + field("", name(direction));
}

Problem Problem::parse(std::string_view line) {
    return ProblemReader(line).read();
}

} // namespace tconv3d
