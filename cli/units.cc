#include "cli/units.h"

#include <fmt/format.h>

#include <array>

namespace urnic::cli {
namespace {

std::string with_unit(double value, const std::array<const char*, 5>& units, double step) {
    std::size_t unit = 0;
    while (unit + 1 < units.size() && value >= step * 0.9995) {
        value /= step;
        ++unit;
    }
    const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

}  // namespace

std::string rate_text(double bytes_per_s) {
    return with_unit(bytes_per_s, {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"}, 1000);
}

std::string size_text(std::uint64_t bytes) {
    return with_unit(static_cast<double>(bytes), {" B", " KiB", " MiB", " GiB", " TiB"}, 1024);
}

std::string count_text(double count) { return with_unit(count, {"", " k", " M", " G", " T"}, 1000); }

std::string duration_text(std::uint64_t seconds) {
    if (seconds < 120) return fmt::format("{} s", seconds);
    if (seconds < 7200) return fmt::format("{} min", seconds / 60);
    if (seconds < 172'800) return fmt::format("{} h {} min", seconds / 3600, seconds % 3600 / 60);
    return fmt::format("{} days {} h", seconds / 86'400, seconds % 86'400 / 3600);
}

std::string plural(std::size_t count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace urnic::cli
