// Messages of the daemon on stderr. Never called by workers.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <string>

namespace urnic {

inline bool& log_verbosely() {
    static bool verbosely = false;
    return verbosely;
}

template <typename... Args>
void log_line(const char* level, fmt::format_string<Args...> format, Args&&... args) {
    try {
        const std::string line =
            fmt::format("urnicd: {}{}\n", level, fmt::format(format, std::forward<Args>(args)...));
        (void)std::fputs(line.c_str(), stderr);
    } catch (const std::bad_alloc&) {
        (void)std::fputs("urnicd: no memory for a message\n", stderr);
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
