#include "cli/top_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cli/daemon_client.h"
#include "cli/launch_error.h"
#include "cli/top_page.h"
#include "cli/top_screen.h"

namespace urnic::cli {
namespace {

using TopClock = std::chrono::steady_clock;
using TopStatus = nlohmann::ordered_json;

constexpr const char* kTopFooter =
    R"(Shows RNICs and QPs with their rates, sorted as you like, until you press q. Keys:
  q              quit
  s, r           sort by the next column, which has a *; reverse the order
  left, right    choose the table of RNICs or that of QPs
  up, down       scroll it; also page up, page down
  p              pause and continue
  h              help, with the meaning of the columns
Root and the daemon's own user see all QPs; others see those of their own programs.

Examples:
  urnic top
  urnic top urnic0
  urnic top --interval 0.5 --socket /run/user/1000/urnic-x1Y2z3)";

/// The daemon's last two answers.
class Looks {
  public:
    explicit Looks(std::filesystem::path at) : at_(std::move(at)) { take(); }

    void take() {
        TopStatus status = TopStatus::parse(fetch_status(at_), nullptr, false);
        if (!status.is_object()) {
            throw LaunchError("the daemon's status is not a JSON object: use the urnic of its release");
        }
        const TopClock::time_point time = TopClock::now();
        // Another one, which may have taken its place, counts from 0.
        const bool is_same = now_.is_object() && pid(now_) == pid(status);
        earlier_ = is_same ? std::move(now_) : TopStatus();
        seconds_ = std::chrono::duration<double>(time - taken_).count();
        now_ = std::move(status);
        taken_ = time;
    }
    [[nodiscard]] TopSample sample() const { return {now_, earlier_, seconds_}; }

  private:
    static TopStatus pid(const TopStatus& status) {
        return status.value("daemon", TopStatus::object()).value("pid", TopStatus());
    }

    std::filesystem::path at_;
    TopStatus now_;
    TopStatus earlier_;
    TopClock::time_point taken_;
    double seconds_ = 0;
};

}  // namespace

struct TopCommand::Definition {
    Command command;
    std::string device;
    std::string socket = default_socket().string();
    double interval_s = 1;
};

TopCommand::TopCommand(const Command& app) : definition_(std::make_unique<Definition>()) {
    Definition& d = *definition_;
    d.command = app.command("top", "Shows RNICs, QPs and their rates in a terminal, again and again.");
    d.command.footer(kTopFooter);
    d.command.option("DEVICE", d.device, "the RNIC that is shown with its QPs; none: all");
    d.command.option("--interval", d.interval_s, "seconds between two looks")
        .type_name("SECONDS")
        .in_range(0.1, 3600.0)
        .shows_default();
    d.command.option("--socket", d.socket, "control socket of the daemon, or the directory it is in")
        .type_name("PATH")
        .shows_default();
}

TopCommand::~TopCommand() = default;

bool TopCommand::parsed() const { return definition_->command.parsed(); }

void TopCommand::run() const {
    // What is wrong with the daemon is reported before the terminal is taken, and after it is given back.
    Looks looks(control_socket(definition_->socket));
    TopPage page(definition_->device);
    page.check_device(looks.sample().now);
    TopScreen screen;
    const auto interval = std::chrono::duration_cast<TopClock::duration>(
        std::chrono::duration<double>(definition_->interval_s));
    TopClock::time_point next = TopClock::now() + interval;
    for (;;) {
        screen.show(page.lines(looks.sample(), screen.width(), screen.height()));
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - TopClock::now());
        const TopScreen::Event event =
            screen.wait(static_cast<int>(std::max<std::int64_t>(left.count() + 1, 0)));
        if (event.kind == TopScreen::Event::Kind::kQuit) return;
        if (event.kind == TopScreen::Event::Kind::kKey) page.press(event.key);
        if (TopClock::now() < next) continue;
        if (!page.is_paused()) looks.take();
        next = TopClock::now() + interval;
    }
}

}  // namespace urnic::cli
