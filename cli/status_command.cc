#include "cli/status_command.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/daemon_client.h"
#include "cli/last_look.h"
#include "cli/launch_error.h"
#include "cli/status_view.h"

namespace urnic::cli {
namespace {

constexpr const char* kStatusFooter =
    R"(Without a VIEW: one screen with the RNICs, their rates, the programs, and what has gone wrong, both since
the last look of this user or since the daemon's start. Views:
  qps       the QPs of all programs        cm        connection managers
  mrs       their memory regions           networks  emulated networks
  counters  counters that are not zero, a column for each RNIC
Root and the daemon's own user see all programs; others see their own.

Examples:
  urnic status
  urnic status qps urnic0
  urnic status --watch --interval 1
  urnic status --json | jq '.devices[].name'
  urnic status --socket /run/user/1000/urnic-x1Y2z3)";

constexpr const char* kClearScreen = "\x1b[H\x1b[2J";

}  // namespace

struct StatusCommand::Definition {
    Command command;
    std::string view;
    std::string device;
    std::string socket = default_socket().string();
    bool json = false;
    bool watch = false;
    double interval_s = 2;

    [[nodiscard]] std::string page(const std::filesystem::path& at) const {
        const auto status = nlohmann::ordered_json::parse(fetch_status(at), nullptr, false);
        if (!status.is_object()) {
            throw LaunchError("the daemon's status is not a JSON object: use the urnic of its release");
        }
        const LastLook last = exchange_last_look(at, status);
        return status_page(status_view_named(view).value_or(StatusView::kSummary), device, status,
                           last.status, last.seconds_ago);
    }
    void show_again_and_again(const std::filesystem::path& at) const {
        const bool is_screen = isatty(STDOUT_FILENO) == 1;
        for (;;) {
            fmt::print("{}{}{}", is_screen ? kClearScreen : "", page(at), is_screen ? "" : "\n");
            if (std::fflush(stdout) != 0) return;  // nobody reads it
            (void)poll(nullptr, 0, static_cast<int>(interval_s * 1000));
        }
    }
};

StatusCommand::StatusCommand(const Command& app) : definition_(std::make_unique<Definition>()) {
    Definition& d = *definition_;
    d.command =
        app.command("status", "Shows the daemon's RNICs, what they do, who uses them, and what is wrong.");
    d.command.footer(kStatusFooter);
    const auto view =
        d.command.option("VIEW", d.view, "qps, mrs, cm, networks or counters; left out: one screen")
            .one_of({"qps", "mrs", "cm", "networks", "counters"});
    d.command.option("DEVICE", d.device, "of this RNIC alone");
    const auto json = d.command.flag("--json", d.json, "print all of it as JSON").excludes(view);
    const auto watch = d.command.flag("--watch", d.watch, "print it again and again").excludes(json);
    d.command.option("--interval", d.interval_s, "seconds between two looks of --watch")
        .type_name("SECONDS")
        .in_range(0.1, 86'400.0)
        .needs(watch)
        .shows_default();
    d.command.option("--socket", d.socket, "control socket of the daemon, or the directory it is in")
        .type_name("PATH")
        .shows_default();
}

StatusCommand::~StatusCommand() = default;

bool StatusCommand::parsed() const { return definition_->command.parsed(); }

void StatusCommand::run() const {
    const Definition& d = *definition_;
    const std::filesystem::path at = control_socket(d.socket);
    if (d.json) {
        const std::string text = fetch_status(at);
        fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
    } else if (d.watch) {
        d.show_again_and_again(at);
    } else {
        fmt::print("{}", d.page(at));
    }
}

}  // namespace urnic::cli
