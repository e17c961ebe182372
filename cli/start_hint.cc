#include "cli/start_hint.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace urnic::cli {

namespace {

/// What the dynamic loader says of a library that is missing, or another one than the program was linked
/// with.
constexpr std::array<std::string_view, 3> kLoaderWords = {"error while loading shared libraries",
                                                          "symbol lookup error", "version `"};

}  // namespace

std::string system_name() {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    std::ifstream file("/etc/os-release");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(kKey)) {
            std::erase(line, '"');
            return line.substr(kKey.size());
        }
    }
    return "this system";
}

std::string start_hint(std::string_view said) {
    if (said.empty()) {
        return "it left no message: where AppArmor or SELinux confines it, the kernel's log says what was "
               "refused (sudo journalctl -k --grep 'apparmor|avc')";
    }
    const auto is_there = [said](std::string_view words) {
        return said.find(words) != std::string_view::npos;
    };
    if (std::any_of(kLoaderWords.begin(), kLoaderWords.end(), is_there)) {
        return fmt::format(
            "it was built for another system than {}, or a library was removed: install the packages that "
            "are built for this one (scripts/debian), or use the tarball, which has DPDK in itself "
            "(scripts/release)",
            system_name());
    }
    return {};
}

}  // namespace urnic::cli
