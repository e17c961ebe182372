// Messages of the daemon on stderr. Never called by workers.
#pragma once

#include <fmt/format.h>

#include <new>
#include <string>
#include <string_view>

namespace urnic {

inline bool& log_verbosely() {
    static bool verbosely = false;
    return verbosely;
}

/// Writes a line to stderr, its first 4 KiB, unless whoever reads there has no room: a pipe that nobody
/// empties holds no thread up. What is lost is counted, and said before the next line.
void write_log_line(std::string_view line);

template <typename... Args>
void log_line(const char* level, fmt::format_string<Args...> format, Args&&... args) {
    try {
        write_log_line(
            fmt::format("urnicd: {}{}\n", level, fmt::format(format, std::forward<Args>(args)...)));
    } catch (const std::bad_alloc&) {
        write_log_line("urnicd: no memory for a message\n");
    }
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
    log_line("error: ", format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    log_line("warning: ", format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    log_line("", format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
    if (log_verbosely()) {
        log_line("", format, std::forward<Args>(args)...);
    }
}

}  // namespace urnic
