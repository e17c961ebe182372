#include "cli/cc_command.h"

#include <fmt/core.h>

#include <charconv>

#include "cli/cc_target.h"
#include "cli/daemon_client.h"
#include "cli/launch_error.h"
#include "cli/status.h"

namespace urnic::cli {

namespace {

constexpr const char* kSetFooter =
    R"(The QPs of the device begin anew at their full rate, those that have settings of their own excepted.
Settings have the names that urnic cc show prints; what is not named stays as it is. A profile sets all
parameters of DCQCN. Only root and the daemon's own user may change them, and they are lost when the daemon
ends: [rnic.congestion] in its configuration keeps them.

Examples:
  urnic cc set urnic0 algorithm=dcqcn profile=connectx line_rate_mbps=25000
  urnic cc set urnic0 algorithm=none
  urnic cc set urnic0/0x1a2b algorithm=fixed rate_mbps=100)";

constexpr const char* kTraceFooter =
    R"(Named QPs, or those of named RNICs; without a name all. The rates are those of QPs; goodput is what each RNIC
sent, headers included. A QP that comes or goes has zeros before and after. NAME-flows.csv and NAME-ports.csv
grow with each reading, FILE.json is written at the end.

Examples:
  urnic cc trace two.json --seconds 20
  urnic cc trace one.json urnic0/0x1a2b --every 5
  urnic experiment two.json --out /tmp        # draws it)";

}  // namespace

std::pair<std::string, std::uint32_t> split_target(const std::string& target) {
    const std::size_t slash = target.find('/');
    if (slash == std::string::npos) return {target, 0};
    const std::string number = target.substr(slash + 1);
    const bool hex = number.starts_with("0x") || number.starts_with("0X");
    const char* const end = number.data() + number.size();
    std::uint32_t qpn = 0;
    const auto parsed = std::from_chars(number.data() + (hex ? 2 : 0), end, qpn, hex ? 16 : 10);
    if (parsed.ec != std::errc{} || parsed.ptr != end || qpn == 0) {
        throw LaunchError(
            fmt::format("\"{}\" must be DEVICE or DEVICE/QPN, for example urnic0/0x1a2b", target));
    }
    return {target.substr(0, slash), qpn};
}

CcCommand::CcCommand(const Command& app) : socket_(default_socket().string()) {
    cc_ = app.command("cc", "Shows and changes the congestion control of a running daemon.");
    cc_.requires_command();
    show_ = cc_.command("show", "Settings of each device; rate, target, alpha and CNPs of each QP.");
    show_.flag("--json", json_, "print JSON");
    set_ = cc_.command("set", "Changes settings of a device, or of one QP.");
    set_.footer(kSetFooter);
    set_.option("DEVICE[/QPN]", target_, "the RNIC, for example urnic0, or one QP of it").required();
    set_.option("SETTING", values_, "NAME=VALUE").required();
    trace_ = cc_.command("trace", "Rates of QPs and queues of emulated networks over time, in files.");
    trace_.footer(kTraceFooter);
    trace_.option("FILE.json", tracing_.file, "what is written; beside it NAME-flows.csv and NAME-ports.csv")
        .required();
    trace_.option("DEVICE[/QPN]", tracing_.targets, "the QPs of an RNIC, or one QP");
    trace_.option("--seconds", tracing_.seconds, "how long; Ctrl-C ends it earlier")
        .in_range(0.01, 86400.0)
        .shows_default();
    trace_.option("--every", tracing_.every_ms, "milliseconds between two readings")
        .in_range(1.0, 60000.0)
        .shows_default();
    for (const Command& command : {show_, set_, trace_}) {
        command.option("--socket", socket_, "control socket of the daemon, or the directory it is in")
            .type_name("PATH")
            .shows_default();
    }
}

void CcCommand::run() const {
    const std::filesystem::path socket = control_socket(socket_);
    if (show_.parsed()) {
        const std::string text = fetch_congestion(socket);
        fmt::print("{}", json_ ? text : status_tables(text).substr(1));
        return;
    }
    if (trace_.parsed()) {
        trace_congestion(socket, tracing_);
        return;
    }
    const auto [device, qpn] = split_target(target_);
    std::string lines;
    for (const std::string& value : values_) lines += value + "\n";
    set_congestion(socket, device, qpn, lines);
}

}  // namespace urnic::cli
