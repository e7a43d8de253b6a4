#include "json.hpp"

#include <array>
#include <cstdio>

#include "text.hpp"

namespace tconv3d::ops {

std::string_view view(Text text) {
    return {text.data(), text.size()};
}

std::string quote(std::string_view text) {
    std::string json = "\"";
    for (const char c : printable(text)) {
        if (c == '"' || c == '\\') json += '\\';
        if (static_cast<unsigned char>(c) >= ' ') {
            json += c;
            continue;
        }
        std::array<char, 8> escape{};
        std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
        json += escape.data();
    }
    return json + '"';
}

std::string member(const char* key, const std::string& json) {
    return quote(key) + ": " + json;
}

std::string member(const char* key, int64_t value) {
    return member(key, std::to_string(value));
}

std::string joined(const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
    return text;
}

std::string object(const std::vector<std::string>& members) {
    return "{" + joined(members) + "}";
}

std::string array(const std::vector<std::string>& items) {
    return "[" + joined(items) + "]";
}

std::string names(const std::vector<std::string>& texts) {
    std::vector<std::string> items;
    items.reserve(texts.size());
    for (const std::string& text : texts) items.push_back(quote(text));
    return array(items);
}

} // namespace tconv3d::ops
