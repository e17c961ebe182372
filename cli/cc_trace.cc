#include "cli/cc_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/cc_target.h"
#include "cli/congestion_series.h"
#include "cli/daemon_client.h"
#include "cli/launch_error.h"

namespace urnic::cli {

namespace {

using TraceClock = std::chrono::steady_clock;

/// All are kept until the end.
constexpr double kMostReadings = 50'000;
constexpr double kMsPerSecond = 1000;

nlohmann::ordered_json parse_answer(const std::string& text) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!json.is_object()) throw LaunchError("the daemon's answer is not JSON: use the urnic of its release");
    return json;
}

/// A file that grows; nothing waits in it between two calls.
class OutputFile {
  public:
    OutputFile(std::string path, const std::string& head) : path_(std::move(path)) {
        errno = 0;
        out_.open(path_, std::ios::binary | std::ios::trunc);
        add(head);
    }
    void add(const std::string& text) {
        out_ << text << std::flush;
        if (!out_) throw LaunchError(fmt::format("{} cannot be written: {}", path_, std::strerror(errno)));
    }

  private:
    std::string path_;
    std::ofstream out_;
};

/// Blocks SIGINT and SIGTERM for as long as it lives, and waits for one of them.
class Interrupts {
  public:
    Interrupts() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGINT);
        sigaddset(&set_, SIGTERM);
        sigprocmask(SIG_BLOCK, &set_, &before_);
    }
    ~Interrupts() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    /// Returns whether one came before `until`.
    [[nodiscard]] bool wait(TraceClock::time_point until) const {
        for (;;) {
            const auto left =
                std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until - TraceClock::now()));
            constexpr std::int64_t kNsPerSecond = 1'000'000'000;
            const timespec time{left.count() / kNsPerSecond, left.count() % kNsPerSecond};
            const int signal = sigtimedwait(&set_, nullptr, &time);
            if (signal > 0 || errno != EINTR) return signal > 0;
        }
    }

  private:
    sigset_t set_{};
    sigset_t before_{};
};

std::vector<TraceTarget> targets_of(const TraceOptions& options) {
    std::vector<TraceTarget> targets;
    for (const std::string& text : options.targets) {
        const auto [device, qpn] = split_target(text);
        targets.push_back({device, qpn});
    }
    return targets;
}

void read_once(const std::filesystem::path& socket, double time_us, CongestionSeries& series) {
    try {
        series.add(time_us, parse_answer(fetch_congestion(socket)), parse_answer(fetch_status(socket)));
    } catch (const nlohmann::json::exception& error) {
        throw LaunchError(fmt::format(
            "the daemon's answer is not understood ({}): use the urnic of its release", error.what()));
    }
}

}  // namespace

void trace_congestion(const std::filesystem::path& socket, const TraceOptions& options) {
    const std::filesystem::path file = options.file;
    if (file.extension() != ".json") {
        throw LaunchError(fmt::format("\"{}\" must end in .json, for example trace.json", options.file));
    }
    if (options.seconds * kMsPerSecond / options.every_ms > kMostReadings) {
        throw LaunchError(fmt::format("{} s every {} ms are more than {} readings: give a longer --every",
                                      options.seconds, options.every_ms, kMostReadings));
    }
    CongestionSeries series(targets_of(options));
    const Interrupts interrupts;
    const auto begin = TraceClock::now();
    const auto us_since = [&] {
        return std::chrono::duration<double, std::micro>(TraceClock::now() - begin).count();
    };
    read_once(socket, us_since(), series);
    if (const auto device = series.unknown_device()) {
        throw LaunchError(fmt::format("there is no RNIC \"{}\": urnic cc show lists them", *device));
    }
    const std::string base = (file.parent_path() / file.stem()).string();
    OutputFile document(file.string(), "");  // what cannot be written is told before the trace, not after it
    OutputFile flows(base + "-flows.csv", CongestionSeries::flows_head());
    OutputFile ports(base + "-ports.csv", CongestionSeries::ports_head());
    const std::chrono::duration<double, std::milli> every(options.every_ms);
    std::string ended;
    while (true) {
        flows.add(series.last_flows());
        ports.add(series.last_ports());
        // A reading that took longer than the time between two leaves out those that it kept from being made.
        const double next = std::ceil(us_since() / kMsPerSecond / options.every_ms);
        if (next * options.every_ms > options.seconds * kMsPerSecond ||
            interrupts.wait(begin + std::chrono::duration_cast<TraceClock::duration>(every * next))) {
            break;
        }
        try {
            read_once(socket, us_since(), series);
        } catch (const LaunchError& error) {
            ended = error.what();  // what was read is still worth having
            break;
        }
    }
    document.add(series.json(file.stem().string()));
    fmt::print("{}: {} readings of {} QPs; urnic experiment {} draws them\n", file.string(),
               series.readings(), series.flows(), file.string());
    if (series.left_out() != 0) {
        fmt::print("{} QPs more were left out: name those that are wanted, DEVICE/QPN\n", series.left_out());
    }
    if (!ended.empty()) throw LaunchError("the trace ended early: " + ended);
}

}  // namespace urnic::cli
