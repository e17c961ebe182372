// What is wrong with a daemon's RNICs, in words.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace urnic::cli {

/// The count of that name in an object of the daemon's answer; 0: there is none.
[[nodiscard]] std::uint64_t status_number(const nlohmann::ordered_json& object, std::string_view name);

/// One sentence for each thing that is wrong in `status`, an answer of the daemon; what was counted up to
/// `earlier`, an answer of the same daemon, is left out (null: nothing is). Throws nlohmann::json::exception
/// when they are not what this release's daemon says.
[[nodiscard]] std::vector<std::string> troubles(const nlohmann::ordered_json& status,
                                                const nlohmann::ordered_json& earlier);

}  // namespace urnic::cli
