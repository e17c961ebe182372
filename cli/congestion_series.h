// What `urnic cc trace` has read, and the forms in which `urnic experiment` writes the same of its runs.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace urnic::cli {

/// QPs of a device, or one of them.
struct TraceTarget {
    std::string device;
    std::uint32_t qpn = 0;  // 0: all
};

class CongestionSeries {
  public:
    /// QPs, and ports of emulated networks, beyond are left out.
    static constexpr std::size_t kMaxLines = 64;

    /// `targets`: what is kept of QPs; none: everything.
    explicit CongestionSeries(std::vector<TraceTarget> targets) : targets_(std::move(targets)) {}

    /// One reading: the daemon's answers to `urnic cc show --json` and `urnic status --json`. Throws
    /// nlohmann::json::exception when they are not what this release's daemon says.
    void add(double time_us, const nlohmann::ordered_json& congestion, const nlohmann::ordered_json& status);
    /// The first target that no reading had a device for.
    [[nodiscard]] std::optional<std::string> unknown_device() const;

    /// All readings as the results of an experiment with one run.
    [[nodiscard]] std::string json(const std::string& name) const;
    /// Lines of a CSV file: its head, then those of the last reading.
    [[nodiscard]] static std::string flows_head() {
        return "run,time_us,flow,rate_gbit,target_gbit,alpha,cnps\n";
    }
    [[nodiscard]] std::string last_flows() const;
    [[nodiscard]] static std::string ports_head() {
        return "run,time_us,port,queue_bytes,marked,dropped,pauses_sent,pauses_received\n";
    }
    [[nodiscard]] std::string last_ports() const;

    [[nodiscard]] std::size_t readings() const { return times_.size(); }
    [[nodiscard]] std::size_t flows() const { return flows_.size(); }
    /// QPs for which there was no room.
    [[nodiscard]] std::size_t left_out() const { return left_out_; }

  private:
    // What one thing had at each reading; 0 where it was not there.
    using Values = std::vector<double>;
    struct Flow {
        Values rate_gbit;
        Values target_gbit;
        Values alpha;
        std::uint64_t cnps = 0;
    };
    struct Port {
        Values queue_kb;
        std::uint64_t marked = 0;
        std::uint64_t dropped = 0;
        std::uint64_t pauses_sent = 0;
        std::uint64_t pauses_received = 0;
    };

    [[nodiscard]] bool is_selected(const std::string& device, std::uint32_t qpn) const;
    [[nodiscard]] bool is_device_selected(const std::string& device) const;
    void read_flows(const nlohmann::ordered_json& congestion);
    void read_devices(const nlohmann::ordered_json& status);
    void read_networks(const nlohmann::ordered_json& status);
    void put(Values& values, double value) const;
    void count(const std::string& name, double total);

    std::vector<TraceTarget> targets_;
    Values times_;
    std::map<std::string, Flow> flows_;
    std::map<std::string, Port> ports_;
    std::map<std::string, Values> goodput_;      // by device
    std::map<std::string, Values> totals_;       // events so far
    std::map<std::string, double> sent_bytes_;   // by device
    std::map<std::string, double> first_total_;  // as totals_
    std::size_t left_out_ = 0;
};

}  // namespace urnic::cli
