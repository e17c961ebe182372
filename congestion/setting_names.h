// The settings of congestion control by their names, as the configuration file and `urnic cc` have them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "congestion/settings.h"

namespace urnic::congestion {

/// What a device has that says nothing: no control, no answers to marks, and the values that control begins
/// with once it is turned on.
[[nodiscard]] Settings default_settings();

/// One "name = value"; a value is text whatever it stands for.
using NamedValue = std::pair<std::string, std::string>;

struct SettingProblem {
    std::string name;  // which value it is about; empty: all of them together
    std::string text;  // what is wrong with it and what is allowed
};

/// Changes what `values` name, by current or former names, and nothing else, all of it or, with a problem,
/// none. A profile sets every parameter of its algorithm, and the others named beside it change them. Who
/// turns control on answers marks as well, unless `cnp` is named.
[[nodiscard]] std::optional<SettingProblem> apply_named(std::span<const NamedValue> values,
                                                        Settings& settings);

/// What a setting with this name, or which had it in an earlier release, is called now.
[[nodiscard]] std::string_view current_name(std::string_view name);

/// All former names, each with the current one.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> former_names();

/// A warning about the former names among `values`, with the current ones; empty: there are none.
[[nodiscard]] std::string former_names_in(std::span<const NamedValue> values);

struct ShownSetting {
    std::string_view name;
    std::string text;
    bool is_word;  // neither a number nor true or false
};
/// Every setting, in their order.
[[nodiscard]] std::vector<ShownSetting> shown(const Settings& settings);

/// "algorithm, line_rate_mbps, ...": all names.
[[nodiscard]] std::string setting_names();

}  // namespace urnic::congestion
