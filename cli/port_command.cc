#include "cli/port_command.h"

#include <fmt/core.h>

#include "cli/daemon_client.h"

namespace urnic::cli {

namespace {

constexpr const char* kPortFooter =
    R"(A port that is down neither sends nor receives, as after ip link set DEVICE down: connections run into
their time-outs, ibv_query_port and sysfs say DOWN, and every program that has the device open gets
IBV_EVENT_PORT_ERR, or IBV_EVENT_PORT_ACTIVE when the port comes up. Only root and the daemon's own user may
change it. Ports are up when the daemon starts.

Examples:
  urnic port urnic0 down
  urnic port urnic0            prints up or down)";

}  // namespace

PortCommand::PortCommand(const Command& app) : socket_(default_socket().string()) {
    port_ = app.command("port", "Takes the port of an RNIC down or up, or shows its state.");
    port_.footer(kPortFooter);
    port_.option("DEVICE", device_, "the RNIC, for example urnic0").required();
    port_.option("STATE", state_, "up or down; left out: print it").one_of({"up", "down"});
    port_.option("--socket", socket_, "control socket of the daemon, or the directory it is in")
        .type_name("PATH")
        .shows_default();
}

void PortCommand::run() const {
    const std::filesystem::path socket = control_socket(socket_);
    if (state_.empty()) {
        fmt::print("{}\n", port_is_up(socket, device_) ? "up" : "down");
    } else {
        set_port(socket, device_, state_ == "up");
    }
}

}  // namespace urnic::cli
