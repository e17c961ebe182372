#include "os/confinement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace urnic {

namespace {

constexpr std::string_view kEnforced = " (enforce)";
constexpr std::string_view kOwnProfile = "urnicd";

bool says_refused(std::string_view error) {
    constexpr std::array kRefusals{EACCES, EPERM};
    return std::any_of(kRefusals.begin(), kRefusals.end(), [error](int number) {
        return error.find(std::strerror(number)) != std::string_view::npos;
    });
}

std::string apparmor_hint(std::string_view profile) {
    const std::string hint =
        profile == kOwnProfile
            ? fmt::format(
                  "Allow it in /etc/apparmor.d/local/{0} and load the profile again (sudo "
                  "apparmor_parser -r /etc/apparmor.d/{0})",
                  profile)
            : "Allow it in that profile; of a container: --security-opt apparmor=unconfined";
    return fmt::format(
        "AppArmor confines this process by the profile \"{}\" and may have refused it: sudo "
        "journalctl -k --grep DENIED says what. {}",
        profile, hint);
}

/// The third part of user:role:type:level; empty: it has no such form.
std::string_view selinux_type(std::string_view label) {
    for (int part = 0; part < 2; ++part) {
        const std::size_t colon = label.find(':');
        if (colon == std::string_view::npos) {
            return {};
        }
        label.remove_prefix(colon + 1);
    }
    return label.substr(0, label.find(':'));
}

}  // namespace

std::string confinement_label() {
    std::ifstream file("/proc/self/attr/current");
    std::string label;
    std::getline(file, label, '\0');
    while (!label.empty() && label.back() == '\n') {
        label.pop_back();
    }
    return label;
}

std::string confinement_hint(std::string_view label, std::string_view error) {
    if (!says_refused(error)) {
        return {};
    }
    if (label.ends_with(kEnforced)) {
        label.remove_suffix(kEnforced.size());
        return apparmor_hint(label);
    }
    const std::string_view type = selinux_type(label);
    if (type.empty() || type.starts_with("unconfined_")) {
        return {};
    }
    return fmt::format(
        "SELinux confines this process as {} and may have refused it: sudo ausearch -m avc -ts "
        "recent says what. Allow it by a module of policy (audit2allow -M urnicd); of a "
        "container: --security-opt label=disable",
        type);
}

}  // namespace urnic
