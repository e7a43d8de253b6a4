#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops.hpp"

/// Enough JSON to write what the library says about itself.
namespace tconv3d::ops {

std::string_view view(Text text);

/// A JSON string.
std::string quote(std::string_view text);

std::string member(const char* key, const std::string& json);
std::string member(const char* key, int64_t value);

std::string joined(const std::vector<std::string>& items);
std::string object(const std::vector<std::string>& members);
std::string array(const std::vector<std::string>& items);

/// A JSON array of strings.
std::string names(const std::vector<std::string>& texts);

} // namespace tconv3d::ops
