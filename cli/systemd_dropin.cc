#include "cli/systemd_dropin.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

/// systemd takes spaces, colons and percent signs of a path for its own.
std::string quoted(const fs::path& path) {
    std::string text;
    for (const char letter : path.string()) {
        if (letter == ':' || letter == '\\') text += '\\';
        if (letter == '%') text += '%';
        text += letter;
    }
    return text.find(' ') == std::string::npos ? text : "\"" + text + "\"";
}

}  // namespace

std::string unit_name(const std::string& service) {
    constexpr const char* kEnding = ".service";
    const bool whole =
        service.size() > 8 && service.compare(service.size() - 8, std::string::npos, kEnding) == 0;
    std::string name = whole ? service : service + kEnding;
    // systemd.unit(5).
    const auto is_allowed = [](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
               (letter >= '0' && letter <= '9') || std::string(":-_.\\@").find(letter) != std::string::npos;
    };
    if (service.empty() || service.front() == '-' || name.size() > 255 ||
        !std::all_of(name.begin(), name.end(), is_allowed)) {
        throw LaunchError(fmt::format(
            "'{}' is no name of a service: write it as systemctl list-units --type=service does", service));
    }
    return name;
}

std::string systemd_dropin(const DropIn& dropin, const std::vector<Placements::Directory>& directories,
                           const std::vector<std::string>& class_entries) {
    std::string text = fmt::format(
        "# RNICs of {0} for {1}: put this into /etc/systemd/system/{1}.d/urnic.conf, then\n"
        "# systemctl daemon-reload && systemctl restart {1}\n",
        dropin.run_dir.string(), unit_name(dropin.service));
    // Another daemon's unit has a name that only its user knows.
    if (dropin.run_dir == "/run/urnic") {
        text += "[Unit]\nRequires=urnicd.service\nAfter=urnicd.service\n\n";
    }
    text += "[Service]\n";
    text += fmt::format("Environment=\"URNIC_RUN_DIR={}\" \"RDMAV_DRIVERS={}\"\n", dropin.run_dir.string(),
                        dropin.driver);
    if (!dropin.socket_group.empty()) text += "SupplementaryGroups=" + dropin.socket_group + "\n";
    std::vector<std::string> wanted;
    for (const Placements::Directory& directory : directories) {
        const std::string name = directory.to.lexically_relative("/sys/class").string();
        if (name.rfind("..", 0) != 0) wanted.push_back(name);
    }
    const auto is_in = [](const std::vector<std::string>& list) {
        return [&list](const std::string& name) {
            return std::find(list.begin(), list.end(), name) != list.end();
        };
    };
    if (!std::all_of(wanted.begin(), wanted.end(), is_in(class_entries))) {
        text +=
            "# Nothing can be made in /sys/class: a directory with the same entries covers it. What appears "
            "later is\n"
            "# not seen.\n"
            "TemporaryFileSystem=/sys/class\n";
        for (const std::string& entry : class_entries) {
            if (!is_in(wanted)(entry)) {
                text += fmt::format("BindPaths=-{}\n", quoted(fs::path("/sys/class") / entry));
            }
        }
    }
    for (const Placements::Directory& directory : directories) {
        text += fmt::format("BindPaths={}:{}\n", quoted(directory.from), quoted(directory.to));
    }
    return text;
}

}  // namespace urnic::cli
