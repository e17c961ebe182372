#include "congestion/setting_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "congestion/profiles.h"

namespace urnic::congestion {

namespace {

enum class Kind : std::uint8_t {
    kWord,          // one of a list, by its place there
    kProfile,       // the same, of dcqcn_profiles()
    kFlag,          // true or false
    kNumber,        // as it is
    kMegabits,      // Mbit/s, held in bit/s
    kMicroseconds,  // held in ns
    kFraction,      // 0 to 1, held as Fraction::raw()
};

constexpr std::uint64_t kMega = 1'000'000;
constexpr std::array<std::string_view, 4> kAlgorithms = {"none", "fixed", "dcqcn", "timely"};
constexpr std::array<std::string_view, 4> kScopes = {"flow", "ip-pair", "dst-ip", "port"};

struct Setting {
    std::string_view name;
    Kind kind;
    std::uint64_t least;  // in the unit it is held in
    std::uint64_t most;
    std::uint64_t (*get)(const Settings&);
    void (*set)(Settings&, std::uint64_t);
    std::span<const std::string_view> words = {};
};

// A setting that is a member, or one of whose members is.
// NOLINTBEGIN(bugprone-macro-parentheses): members have no parentheses
#define URNIC_AT(member)                                                    \
    [](const Settings& s) { return static_cast<std::uint64_t>(s.member); }, \
        [](Settings& s, std::uint64_t v) { s.member = static_cast<decltype(s.member)>(v); }
#define URNIC_FRACTION_AT(member)                                    \
    [](const Settings& s) { return std::uint64_t{s.member.raw()}; }, \
        [](Settings& s, std::uint64_t v) { s.member = Fraction::from_raw(static_cast<std::uint32_t>(v)); }
// NOLINTEND(bugprone-macro-parentheses)

std::uint64_t profile_of(const Settings& settings) { return settings.profile; }

void use_profile(Settings& settings, std::uint64_t index) {
    const DcqcnProfile& profile = dcqcn_profiles()[index];
    settings.profile = static_cast<std::uint8_t>(index);
    settings.rate.dcqcn = parameters_for(profile, settings.rate.line_rate);
    settings.min_time_between_cnps_ns = profile.min_time_between_cnps_ns;
}

constexpr std::uint64_t kSecond = 1'000'000'000;

// In the order in which they are applied: what a profile sets comes after it, and its rates follow the
// line's.
// clang-format off
constexpr Setting kSettings[] = {
    {"algorithm", Kind::kWord, 0, 0, URNIC_AT(rate.algorithm), kAlgorithms},
    {"line_rate_mbps", Kind::kMegabits, kMega, kMaxRate, URNIC_AT(rate.line_rate)},
    {"rate_mbps", Kind::kMegabits, kMinRate, kMaxRate, URNIC_AT(rate.fixed_rate)},
    {"burst_bytes", Kind::kNumber, 1, 1U << 28U, URNIC_AT(burst_bytes)},
    {"profile", Kind::kProfile, 0, 0, profile_of, use_profile},
    {"g", Kind::kFraction, Fraction::of(1, 1024).raw(), Fraction::kOne, URNIC_FRACTION_AT(rate.dcqcn.g)},
    {"initial_alpha", Kind::kFraction, 0, Fraction::kOne, URNIC_FRACTION_AT(rate.dcqcn.initial_alpha)},
    {"alpha_period_us", Kind::kMicroseconds, 500, kSecond, URNIC_AT(rate.dcqcn.alpha_period_ns)},
    {"alpha_once_per_period", Kind::kFlag, 0, 1, URNIC_AT(rate.dcqcn.alpha_once_per_period)},
    {"rate_reduce_monitor_period_us", Kind::kMicroseconds, 0, kSecond, URNIC_AT(rate.dcqcn.rate_reduce_monitor_period_ns)},
    {"increase_period_us", Kind::kMicroseconds, 0, kSecond, URNIC_AT(rate.dcqcn.increase_period_ns)},
    {"increase_bytes", Kind::kNumber, 0, std::uint64_t{1} << 40U, URNIC_AT(rate.dcqcn.increase_bytes)},
    {"recovery_stages", Kind::kNumber, 0, 1000, URNIC_AT(rate.dcqcn.recovery_stages)},
    {"recovery_stages_inclusive", Kind::kFlag, 0, 1, URNIC_AT(rate.dcqcn.recovery_stages_inclusive)},
    {"additive_increase_mbps", Kind::kMegabits, 1, kMaxRate, URNIC_AT(rate.dcqcn.additive_increase)},
    {"hyper_increase_mbps", Kind::kMegabits, 1, kMaxRate, URNIC_AT(rate.dcqcn.hyper_increase)},
    {"clamp_tgt_rate", Kind::kFlag, 0, 1, URNIC_AT(rate.dcqcn.clamp_tgt_rate)},
    {"min_rate_mbps", Kind::kMegabits, kMinRate, kMaxRate, URNIC_AT(rate.dcqcn.min_rate)},
    {"rate_to_set_on_first_cnp_mbps", Kind::kMegabits, 0, kMaxRate, URNIC_AT(rate.dcqcn.rate_to_set_on_first_cnp)},
    {"timely_low_us", Kind::kMicroseconds, 0, kSecond, URNIC_AT(rate.timely.t_low_ns)},
    {"timely_high_us", Kind::kMicroseconds, 0, kSecond, URNIC_AT(rate.timely.t_high_ns)},
    {"timely_least_rtt_us", Kind::kMicroseconds, 1, kSecond, URNIC_AT(rate.timely.min_rtt_ns)},
    {"timely_weight", Kind::kFraction, 0, Fraction::kOne, URNIC_FRACTION_AT(rate.timely.ewma)},
    {"timely_beta", Kind::kFraction, 0, Fraction::kOne, URNIC_FRACTION_AT(rate.timely.beta)},
    {"timely_increase_mbps", Kind::kMegabits, 1, kMaxRate, URNIC_AT(rate.timely.increase)},
    {"timely_hyper_after", Kind::kNumber, 0, 1000, URNIC_AT(rate.timely.hyper_after)},
    {"timely_hyper_factor", Kind::kNumber, 1, 1000, URNIC_AT(rate.timely.hyper_factor)},
    {"timely_min_rate_mbps", Kind::kMegabits, kMinRate, kMaxRate, URNIC_AT(rate.timely.min_rate)},
    {"cnp", Kind::kFlag, 0, 1, URNIC_AT(cnp_enabled)},
    {"min_time_between_cnps_us", Kind::kMicroseconds, 0, kSecond, URNIC_AT(min_time_between_cnps_ns)},
    {"cnp_scope", Kind::kWord, 0, 0, URNIC_AT(cnp_scope), kScopes},
    {"nak_triggers_cnp", Kind::kFlag, 0, 1, URNIC_AT(nak_triggers_cnp)},
    {"cnp_dscp", Kind::kNumber, 0, 63, URNIC_AT(cnp_dscp)},
    {"cnp_priority", Kind::kNumber, 0, 7, URNIC_AT(cnp_priority)},
};
// clang-format on

/// Names of settings in earlier releases, and what they are called now.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {
    {"cnp_gap_us", "min_time_between_cnps_us"},
    {"first_cnp_rate_mbps", "rate_to_set_on_first_cnp_mbps"},
    {"clamps_target", "clamp_tgt_rate"},
    {"cut_window_us", "rate_reduce_monitor_period_us"},
    {"alpha_rises_with_period", "alpha_once_per_period"},
    {"counts_stage_after", "recovery_stages_inclusive"},
};

/// What one unit of the text is, in what it is held in.
std::uint64_t unit_of(Kind kind) {
    switch (kind) {
        case Kind::kMegabits:
            return kMega;
        case Kind::kMicroseconds:
            return 1000;
        case Kind::kFraction:
            return Fraction::kOne;
        default:
            return 1;
    }
}

/// The shortest text that is read as the same value.
std::string text_of(double value) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
    return {text.data(), end.ptr};
}

std::string number_text(Kind kind, std::uint64_t held) {
    const std::uint64_t unit = unit_of(kind);
    return held % unit == 0 ? std::to_string(held / unit)
                            : text_of(static_cast<double>(held) / static_cast<double>(unit));
}

std::vector<std::string_view> words_of(const Setting& setting) {
    std::vector<std::string_view> words(setting.words.begin(), setting.words.end());
    if (setting.kind == Kind::kProfile) {
        for (const DcqcnProfile& profile : dcqcn_profiles()) {
            words.push_back(profile.name);
        }
    }
    return words;
}

std::string listed(const std::vector<std::string_view>& words) {
    std::string list;
    for (const std::string_view word : words) {
        list += list.empty() ? "" : ", ";
        list += word;
    }
    return list;
}

std::string allowed(const Setting& setting) {
    switch (setting.kind) {
        case Kind::kWord:
        case Kind::kProfile:
            return std::string("one of ").append(listed(words_of(setting)));
        case Kind::kFlag:
            return "true or false";
        default:
            break;
    }
    std::string text = setting.kind == Kind::kNumber ? "a whole number from " : "a number from ";
    text += number_text(setting.kind, setting.least) + " to " + number_text(setting.kind, setting.most);
    text += setting.kind == Kind::kMegabits       ? " (Mbit/s)"
            : setting.kind == Kind::kMicroseconds ? " (us)"
                                                  : "";
    return text;
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    return end.ec == std::errc{} && end.ptr == text.data() + text.size();
}

/// What the text stands for; nothing when it is of no such form or out of range.
std::optional<std::uint64_t> read(const Setting& setting, std::string_view text) {
    std::uint64_t held = 0;
    if (setting.kind == Kind::kWord || setting.kind == Kind::kProfile) {
        const auto words = words_of(setting);
        const auto found = std::find(words.begin(), words.end(), text);
        return found == words.end() ? std::nullopt
                                    : std::optional<std::uint64_t>(std::distance(words.begin(), found));
    }
    if (setting.kind == Kind::kFlag) {
        return text == "true" || text == "false" ? std::optional<std::uint64_t>(text == "true" ? 1 : 0)
                                                 : std::nullopt;
    }
    if (setting.kind == Kind::kNumber) {
        if (!read_number(text, held)) {
            return std::nullopt;
        }
    } else {
        double number = 0;
        const auto most = static_cast<double>(setting.most);
        if (!read_number(text, number) || !std::isfinite(number) || number < 0 ||
            number * static_cast<double>(unit_of(setting.kind)) > most) {
            return std::nullopt;
        }
        held = static_cast<std::uint64_t>(std::llround(number * static_cast<double>(unit_of(setting.kind))));
    }
    return held >= setting.least && held <= setting.most ? std::optional(held) : std::nullopt;
}

std::string problem_with(const Setting& setting, std::string_view text) {
    return std::string("'").append(setting.name).append("' is \"").append(text).append("\"; it must be ") +
           allowed(setting);
}

/// What is wrong with values that are each right.
std::optional<SettingProblem> contradiction(const Settings& settings) {
    const RateParameters& rate = settings.rate;
    if (rate.algorithm == Algorithm::kFixed && rate.fixed_rate > rate.line_rate) {
        return SettingProblem{"rate_mbps", "'rate_mbps' is " + number_text(Kind::kMegabits, rate.fixed_rate) +
                                               "; it must not be more than line_rate_mbps, " +
                                               number_text(Kind::kMegabits, rate.line_rate)};
    }
    if (rate.timely.t_low_ns > rate.timely.t_high_ns) {
        return SettingProblem{"timely_low_us", "'timely_low_us' is " +
                                                   number_text(Kind::kMicroseconds, rate.timely.t_low_ns) +
                                                   "; it must not be more than timely_high_us, " +
                                                   number_text(Kind::kMicroseconds, rate.timely.t_high_ns)};
    }
    const std::string_view problem = problem_of(rate.dcqcn);
    return problem.empty() ? std::nullopt : std::optional(SettingProblem{"", std::string(problem)});
}

}  // namespace

Settings default_settings() {
    Settings settings;
    settings.cnp_enabled = false;
    settings.rate.line_rate = 100'000 * kMega;
    settings.rate.fixed_rate = settings.rate.line_rate;
    settings.rate.timely = timely_of_paper();
    use_profile(settings, 0);
    return settings;
}

std::string_view current_name(std::string_view name) {
    const auto* const found = std::find_if(std::begin(kFormerNames), std::end(kFormerNames),
                                           [&](const auto& former) { return former.first == name; });
    return found == std::end(kFormerNames) ? name : found->second;
}

std::span<const std::pair<std::string_view, std::string_view>> former_names() { return kFormerNames; }

std::string former_names_in(std::span<const NamedValue> values) {
    std::string text;
    for (const auto& [name, value] : values) {
        if (const std::string_view now = current_name(name); now != name) {
            text.append(text.empty() ? "" : ", ").append("'").append(name).append("' is now '").append(now);
            text.append("'");
        }
    }
    return text.empty() ? text : text + "; the next release will not read former names";
}

std::optional<SettingProblem> apply_named(std::span<const NamedValue> values, Settings& settings) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string& name = values[i].first;
        const std::string_view now = current_name(name);
        if (std::none_of(std::begin(kSettings), std::end(kSettings),
                         [&](const Setting& setting) { return setting.name == now; })) {
            return SettingProblem{
                name, std::string("unknown setting '").append(name).append("'; allowed: ") + setting_names()};
        }
        if (std::any_of(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const NamedValue& earlier) { return current_name(earlier.first) == now; })) {
            return SettingProblem{name, std::string("'").append(now).append("' is given twice")};
        }
    }
    Settings changed = settings;
    const auto named = [&](std::string_view name) {
        return std::find_if(values.begin(), values.end(),
                            [&](const NamedValue& value) { return current_name(value.first) == name; });
    };
    for (const Setting& setting : kSettings) {
        const auto value = named(setting.name);
        if (value == values.end()) {
            continue;
        }
        const auto held = read(setting, value->second);
        if (!held) {
            return SettingProblem{value->first, problem_with(setting, value->second)};
        }
        setting.set(changed, *held);
    }
    if (named("algorithm") != values.end() && named("cnp") == values.end()) {
        changed.cnp_enabled = changed.rate.algorithm != Algorithm::kNone;
    }
    if (auto problem = contradiction(changed)) {
        return problem;
    }
    settings = changed;
    return std::nullopt;
}

std::vector<ShownSetting> shown(const Settings& settings) {
    std::vector<ShownSetting> list;
    for (const Setting& setting : kSettings) {
        const std::uint64_t held = setting.get(settings);
        const bool is_word = setting.kind == Kind::kWord || setting.kind == Kind::kProfile;
        std::string text = is_word                       ? std::string(words_of(setting).at(held))
                           : setting.kind == Kind::kFlag ? (held != 0 ? "true" : "false")
                                                         : number_text(setting.kind, held);
        list.push_back({setting.name, std::move(text), is_word});
    }
    return list;
}

std::string setting_names() {
    std::vector<std::string_view> names;
    for (const Setting& setting : kSettings) {
        names.push_back(setting.name);
    }
    return listed(names);
}

}  // namespace urnic::congestion
