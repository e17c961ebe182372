// Fields of events as a reader takes them, who believes nothing of what a file says.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace urnic::view {

/// Something else, or a number that no PSN, length or time is: nothing.
inline bool take_number(const nlohmann::ordered_json& data, const char* name, double& number) {
    const auto found = data.find(name);
    if (found == data.end() || !found->is_number()) return false;
    number = found->get<double>();
    constexpr double kExact = 9e15;  // integers below are exact in a double
    return std::isfinite(number) && number >= 0 && number < kExact;
}

inline bool take_text(const nlohmann::ordered_json& data, const char* name, std::string& text) {
    const auto found = data.find(name);
    if (found == data.end() || !found->is_string()) return false;
    text = found->get<std::string>();
    return true;
}

}  // namespace urnic::view
