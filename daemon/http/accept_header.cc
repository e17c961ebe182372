#include "daemon/http/accept_header.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace urnic::daemon {

namespace {

constexpr int kFullQuality = 1000;

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t";
    const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
    return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

/// What is before `separator`, without it taken from `rest`.
std::string_view next_part(std::string_view& rest, char separator) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string_view part = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
}

/// `name` is in small letters.
bool is_name(std::string_view text, std::string_view name) {
    return std::equal(text.begin(), text.end(), name.begin(), name.end(),
                      [](unsigned char a, char b) { return std::tolower(a) == b; });
}

/// In thousandths; absent: it is none ("0.5", "1", "1.000").
std::optional<int> parse_quality(std::string_view text) {
    constexpr std::size_t kMostBytes = 5;
    if (text.empty() || text.size() > kMostBytes || (text[0] != '0' && text[0] != '1') ||
        (text.size() > 1 && text[1] != '.')) {
        return std::nullopt;
    }
    int quality = (text[0] - '0') * kFullQuality;
    int unit = kFullQuality;
    for (const unsigned char digit : text.substr(std::min<std::size_t>(2, text.size()))) {
        if (std::isdigit(digit) == 0) {
            return std::nullopt;
        }
        unit /= 10;
        quality += (digit - '0') * unit;
    }
    return quality <= kFullQuality ? std::optional<int>(quality) : std::nullopt;
}

/// One element of the list.
struct MediaRange {
    std::string_view type;
    std::string_view version;
    int quality = kFullQuality;
};

std::optional<MediaRange> parse_range(std::string_view text) {
    MediaRange range;
    range.type = next_part(text, ';');
    while (!text.empty()) {
        std::string_view value = next_part(text, ';');
        const std::string_view name = next_part(value, '=');
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
            value = value.substr(1, value.size() - 2);
        }
        if (is_name(name, "version")) {
            range.version = value;
        } else if (is_name(name, "q")) {
            const std::optional<int> quality = parse_quality(value);
            if (!quality) {
                return std::nullopt;
            }
            range.quality = *quality;
        }
    }
    return range;
}

}  // namespace

bool is_openmetrics_preferred(std::string_view accept) {
    int openmetrics = 0;
    std::optional<int> text;
    int anything = 0;
    while (!accept.empty()) {
        const std::optional<MediaRange> range = parse_range(next_part(accept, ','));
        if (!range) {
            continue;
        }
        const auto is = [&](std::string_view type, std::string_view version) {
            return is_name(range->type, type) && (range->version.empty() || range->version == version);
        };
        if (is("application/openmetrics-text", "1.0.0")) {
            openmetrics = std::max(openmetrics, range->quality);
        } else if (is("text/plain", "0.0.4")) {
            text = std::max(text.value_or(0), range->quality);
        } else if (is_name(range->type, "text/*") || is_name(range->type, "*/*")) {
            anything = std::max(anything, range->quality);
        }
    }
    return openmetrics > 0 && openmetrics >= text.value_or(anything);
}

}  // namespace urnic::daemon
