// `urnic systemd-dropin`: what shows the RNICs to a service, however it is started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/placements.h"

namespace urnic::cli {

struct DropIn {
    std::string service;  // as the person wrote it
    std::filesystem::path run_dir;
    std::string driver;        // for RDMAV_DRIVERS
    std::string socket_group;  // of the control socket, if only its members may use it; otherwise empty
};

/// The name of the unit that `service` means: "nginx" is "nginx.service". Throws LaunchError if no unit can
/// have that name.
[[nodiscard]] std::string unit_name(const std::string& service);

/// Text for /etc/systemd/system/UNIT.d/urnic.conf. `class_entries`: what /sys/class has on this machine,
/// "net", and in place of "misc" what that has, "misc/fuse".
[[nodiscard]] std::string systemd_dropin(const DropIn& dropin,
                                         const std::vector<Placements::Directory>& directories,
                                         const std::vector<std::string>& class_entries);

}  // namespace urnic::cli
