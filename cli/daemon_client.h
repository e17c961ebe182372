// What `urnic` asks a daemon: whether it is there and of the same version, and for its status.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "abi/capture.h"
#include "os/unique_fd.h"

namespace urnic::cli {

/// The daemon that the caller runs under (URNIC_RUN_DIR), otherwise /run/urnic/control.sock.
[[nodiscard]] std::filesystem::path default_socket();

/// The socket that `--socket` names: PATH itself, or PATH/control.sock when PATH is a directory; absolute.
/// Throws LaunchError when the file's name is another one, since programs look for that name in the run
/// directory.
[[nodiscard]] std::filesystem::path control_socket(const std::filesystem::path& path);

/// Throws LaunchError unless a daemon of this version answers at `socket` and takes this user as a client.
void check_daemon(const std::filesystem::path& socket);

/// The daemon's status, JSON text.
[[nodiscard]] std::string fetch_status(const std::filesystem::path& socket);

// `urnic fault`. Each throws LaunchError with the daemon's words when it refuses.

/// The faults in force, JSON text.
[[nodiscard]] std::string fetch_faults(const std::filesystem::path& socket);
/// `events`: JSON text; `source`: what messages call it.
void add_faults(const std::filesystem::path& socket, const std::string& events, const std::string& source);
void remove_fault(const std::filesystem::path& socket, std::uint32_t id);
void clear_faults(const std::filesystem::path& socket);

/// `urnic port`: takes the port of a device down or up. Throws LaunchError.
void set_port(const std::filesystem::path& socket, const std::string& device, bool up);
/// Returns whether it is up.
[[nodiscard]] bool port_is_up(const std::filesystem::path& socket, const std::string& device);

// `urnic cc`. Each throws LaunchError with the daemon's words when it refuses.

/// Settings and rates, JSON text.
[[nodiscard]] std::string fetch_congestion(const std::filesystem::path& socket);
/// Changes the settings of a device, or of one QP of it (`qpn` 0: the device); `values` are "name=value"
/// lines.
void set_congestion(const std::filesystem::path& socket, const std::string& device, std::uint32_t qpn,
                    const std::string& values);

/// `urnic capture`.
struct StartedCapture {
    UniqueFd connection;  // the capture ends with it
    std::string rnics;    // abi::CaptureReply's list, JSON text
    std::uint32_t rings = 0;
    std::uint64_t ring_bytes = 0;
    std::uint64_t control_bytes = 0;  // of a ring of the control thread behind those; 0: there is none
};
/// `buffer`: a sealed memfd. Throws LaunchError with the daemon's words when it refuses.
[[nodiscard]] StartedCapture start_capture(const std::filesystem::path& socket, abi::CaptureRequest request,
                                           int buffer);

}  // namespace urnic::cli
