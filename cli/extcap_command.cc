#include "cli/extcap_command.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/capture_run.h"
#include "cli/launch_error.h"

namespace urnic::cli {

namespace {

constexpr const char* kExtcapFooter =
    R"(Wireshark calls this; nobody else needs to. It looks for programs in its extcap folder (tshark -G folders),
where the installation puts urnic-extcap, which runs this command. The daemon is the one at
/run/urnic/control.sock, or that of the environment (URNIC_RUN_DIR).

Examples:
  tshark -D
  tshark -i urnic0 -f "qpn=0x11")";

struct ListedRnic {
    std::string name;
    bool is_infiniband = false;
};

std::vector<ListedRnic> rnics_at(const std::string& socket) {
    std::vector<ListedRnic> rnics;
    try {
        const auto status = nlohmann::json::parse(fetch_status(control_socket(socket)));
        for (const auto& device : status.at("devices")) {
            rnics.push_back({device.at("name"), device.at("port").value("link_layer", "") == "InfiniBand"});
        }
    } catch (const nlohmann::json::exception&) {
        throw LaunchError("the daemon's status is not understood: use the urnic of its release");
    }
    return rnics;
}

/// Values stand between braces.
std::string sentence_part(std::string text) {
    for (char& c : text) c = c == '{' || c == '}' || c == '\n' ? ' ' : c;
    return text;
}

}  // namespace

ExtcapCommand::ExtcapCommand(const Command& app) : socket_(default_socket().string()) {
    extcap_ = app.command("extcap", "Shows RNICs to Wireshark as interfaces, and captures for it.");
    extcap_.footer(kExtcapFooter);
    extcap_.flag("--extcap-interfaces", wants_interfaces_, "list the interfaces");
    extcap_.option("--extcap-version", version_, "Wireshark's version").type_name("N.N");
    extcap_.option("--extcap-interface", interface_, "the interface meant").type_name("NAME");
    extcap_.flag("--extcap-dlts", wants_link_types_, "list the interface's link types");
    extcap_.flag("--extcap-config", wants_options_, "list the interface's options");
    extcap_.flag("--extcap-cleanup-postkill", is_cleanup_,
                 "a capture was ended: there is nothing to clean up");
    extcap_.flag("--capture", wants_capture_, "capture to --fifo");
    extcap_.option("--fifo", fifo_, "where to write the capture").type_name("PATH");
    extcap_.option("--extcap-capture-filter", filter_, "as of urnic capture --filter").type_name("FILTER");
    extcap_.option("--filter", qp_filter_, "as of urnic capture").type_name("FILTER");
    extcap_.option("--snaplen", snap_bytes_, "as of urnic capture").in_range<std::uint32_t>(1, kMaxSnap);
    extcap_.option("--buffer", buffer_mb_, "as of urnic capture").in_range<std::uint32_t>(1, kMaxBufferMb);
    extcap_.option("--socket", socket_, "control socket of the daemon, or the directory it is in")
        .type_name("PATH")
        .shows_default();
}

void ExtcapCommand::list_interfaces() const {
    fmt::print("extcap {{version=1.0}}{{help=https://www.wireshark.org/docs/man-pages/extcap.html}}\n");
    std::vector<ListedRnic> rnics;
    try {
        rnics = rnics_at(socket_);
    } catch (const LaunchError&) {
        return;  // no daemon, no interfaces
    }
    for (const ListedRnic& rnic : rnics) {
        fmt::print("interface {{value={}}}{{display=RNIC of urnicd, {}}}\n", sentence_part(rnic.name),
                   rnic.is_infiniband ? "InfiniBand" : "RoCE v2");
    }
}

void ExtcapCommand::list_link_types() const {
    for (const ListedRnic& rnic : rnics_at(socket_)) {
        if (rnic.name != interface_) continue;
        fmt::print("dlt {{number={}}}{{name={}}}{{display={}}}\n", rnic.is_infiniband ? 197 : 1,
                   rnic.is_infiniband ? "ERF" : "EN10MB",
                   rnic.is_infiniband ? "InfiniBand (ERF)" : "Ethernet");
        return;
    }
    throw LaunchError(fmt::format("there is no RNIC \"{}\": urnic status lists them", interface_));
}

void ExtcapCommand::list_options() const {
    fmt::print(
        "arg {{number=0}}{{call=--filter}}{{display=Packets}}{{type=string}}{{tooltip=qpn=N,peer=ADDRESS,"
        "opcode=N|NAME; empty: all}}\n"
        "arg {{number=1}}{{call=--snaplen}}{{display=Bytes of each packet}}{{type=unsigned}}{{range=1,65535}}"
        "{{default=65535}}\n"
        "arg {{number=2}}{{call=--buffer}}{{display=Buffer in "
        "MB}}{{type=unsigned}}{{range=1,1024}}{{default=32}}\n");
}

void ExtcapCommand::capture() const {
    if (interface_.empty() || fifo_.empty()) {
        throw LaunchError("--capture needs --extcap-interface and --fifo: Wireshark gives them");
    }
    CaptureOptions options;
    options.devices = {interface_};
    options.filter = parse_capture_filter(qp_filter_.empty() ? filter_ : qp_filter_);
    options.snap_bytes = snap_bytes_;
    options.buffer_mb = buffer_mb_;
    const StopSignals signals;
    UniqueFd fifo(::open(fifo_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fifo) throw LaunchError(fmt::format("{} cannot be written: {}", fifo_, std::strerror(errno)));
    CaptureSession session(control_socket(socket_), options);
    CaptureFile file(std::move(fifo), fifo_, capture_head(session, options));
    run_capture(session, file, 0);
}

void ExtcapCommand::run() const {
    if (wants_interfaces_) {
        list_interfaces();
    } else if (wants_link_types_) {
        list_link_types();
    } else if (wants_options_) {
        list_options();
    } else if (wants_capture_) {
        capture();
    } else if (!filter_.empty()) {
        (void)parse_capture_filter(filter_);  // Wireshark asks whether it is one
    } else if (!is_cleanup_) {
        throw LaunchError("urnic extcap is for Wireshark: urnic capture captures by hand");
    }
}

}  // namespace urnic::cli
