#include "cli/congestion_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace urnic::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kMegaPerGiga = 1000;
constexpr double kBytesPerKilo = 1000;
constexpr double kGbitPerBytesInUs = 8e-3;

// Six decimals, as experiments have them.
Json rounded(const std::vector<double>& values) {
    constexpr double kParts = 1e6;
    Json list = Json::array();
    for (const double value : values) list.push_back(std::round(value * kParts) / kParts);
    return list;
}

}  // namespace

bool CongestionSeries::is_device_selected(const std::string& device) const {
    return targets_.empty() || std::any_of(targets_.begin(), targets_.end(), [&](const TraceTarget& target) {
               return target.device == device;
           });
}

bool CongestionSeries::is_selected(const std::string& device, std::uint32_t qpn) const {
    return targets_.empty() || std::any_of(targets_.begin(), targets_.end(), [&](const TraceTarget& target) {
               return target.device == device && (target.qpn == 0 || target.qpn == qpn);
           });
}

std::optional<std::string> CongestionSeries::unknown_device() const {
    const auto unknown = std::find_if(targets_.begin(), targets_.end(), [&](const TraceTarget& target) {
        return !sent_bytes_.contains(target.device);
    });
    return unknown == targets_.end() ? std::nullopt : std::optional(unknown->device);
}

void CongestionSeries::put(Values& values, double value) const {
    values.resize(times_.size());
    values.back() = value;
}

void CongestionSeries::count(const std::string& name, double total) {
    put(totals_[name], total - first_total_.try_emplace(name, total).first->second);
}

void CongestionSeries::add(double time_us, const Json& congestion, const Json& status) {
    times_.push_back(time_us);
    for (auto& [name, flow] : flows_) {
        for (Values* values : {&flow.rate_gbit, &flow.target_gbit, &flow.alpha}) put(*values, 0);
    }
    for (auto& [name, port] : ports_) put(port.queue_kb, 0);
    read_flows(congestion);
    read_devices(status);
    read_networks(status);
}

void CongestionSeries::read_flows(const Json& congestion) {
    std::size_t left_out = 0;
    for (const Json& device : congestion.at("devices")) {
        const auto name = device.at("name").get<std::string>();
        for (const Json& qp : device.at("qps")) {
            const auto qpn = qp.at("qpn").get<std::uint32_t>();
            const std::string flow_name = fmt::format("{}/{:#x}", name, qpn);
            if (!is_selected(name, qpn)) continue;
            if (!flows_.contains(flow_name) && flows_.size() == kMaxLines) {
                ++left_out;
                continue;
            }
            Flow& flow = flows_[flow_name];
            put(flow.rate_gbit, qp.at("rate_mbps").get<double>() / kMegaPerGiga);
            put(flow.target_gbit, qp.at("target_mbps").get<double>() / kMegaPerGiga);
            put(flow.alpha, qp.at("alpha").get<double>());
            flow.cnps = qp.at("cnps").get<std::uint64_t>();
        }
    }
    left_out_ = std::max(left_out_, left_out);
}

// What each device sent since the last reading; the CNPs of all since the first.
void CongestionSeries::read_devices(const Json& status) {
    const double span_us = times_.size() < 2 ? 0 : times_.back() - times_[times_.size() - 2];
    double cnps = 0;
    for (const Json& device : status.at("devices")) {
        const auto name = device.at("name").get<std::string>();
        if (!is_device_selected(name)) continue;
        const auto sent = device.at("counters").at("sent_bytes").get<double>();
        cnps += device.at("counters").at("rp_cnp_handled").get<double>();
        const double before = std::exchange(sent_bytes_.try_emplace(name, sent).first->second, sent);
        put(goodput_[name], span_us <= 0 ? 0 : (sent - before) / span_us * kGbitPerBytesInUs);
    }
    count("cnps", cnps);
}

void CongestionSeries::read_networks(const Json& status) {
    double marks = 0;
    double drops = 0;
    double pauses = 0;
    const auto read_port = [&](const std::string& name, const Json& view) {
        if (!ports_.contains(name) && ports_.size() == kMaxLines) return;
        Port& port = ports_[name];
        put(port.queue_kb, view.at("queue_bytes").get<double>() / kBytesPerKilo);
        port.marked = view.at("marked").get<std::uint64_t>();
        port.dropped = view.at("dropped").get<std::uint64_t>();
        port.pauses_sent = view.value("pauses_sent", std::uint64_t{0});
        port.pauses_received = view.value("pauses_received", std::uint64_t{0});
        marks += static_cast<double>(port.marked);
        drops += static_cast<double>(port.dropped);
        // One between two switches is sent by the one and received by the other.
        pauses +=
            static_cast<double>(port.pauses_sent + (view.contains("device") ? port.pauses_received : 0));
    };
    for (const Json& network : status.at("networks")) {
        const auto fabric = network.at("fabric").get<std::string>();
        for (const Json& view : network.at("ports")) {
            read_port(fmt::format("{}>{}", fabric, view.at("device").get<std::string>()), view);
        }
        for (const Json& view : network.value("trunks", Json::array())) {
            read_port(fmt::format("{}:{}", fabric, view.at("port").get<std::string>()), view);
        }
    }
    count("marks", marks);
    count("drops", drops);
    count("pauses", pauses);
}

std::string CongestionSeries::json(const std::string& name) const {
    Json series;
    series["time_us"] = rounded(times_);
    Json& goodput = series["goodput_gbit"] = Json::object();
    for (const auto& [device, values] : goodput_) goodput[device] = rounded(values);
    for (const auto& [key, member] : {std::pair<const char*, Values Flow::*>{"rate_gbit", &Flow::rate_gbit},
                                      {"target_gbit", &Flow::target_gbit},
                                      {"alpha", &Flow::alpha}}) {
        Json& of_flows = series[key] = Json::object();
        for (const auto& [flow_name, flow] : flows_) of_flows[flow_name] = rounded(flow.*member);
    }
    Json& queues = series["queue_kb"] = Json::object();
    for (const auto& [port_name, port] : ports_) queues[port_name] = rounded(port.queue_kb);
    for (const auto& [key, values] : totals_) series[key] = rounded(values);
    Json run;
    run["label"] = "";
    run["fluid"] = nullptr;
    run["series"] = std::move(series);
    Json document;
    document["name"] = name;
    document["runs"] = Json::array({std::move(run)});
    return document.dump(1, '\t') + "\n";
}

std::string CongestionSeries::last_flows() const {
    std::string text;
    for (const auto& [name, flow] : flows_) {
        text += fmt::format("\"\",{:.0f},\"{}\",{:.6f},{:.6f},{:.6f},{}\n", times_.back(), name,
                            flow.rate_gbit.back(), flow.target_gbit.back(), flow.alpha.back(), flow.cnps);
    }
    return text;
}

std::string CongestionSeries::last_ports() const {
    std::string text;
    for (const auto& [name, port] : ports_) {
        text += fmt::format("\"\",{:.0f},\"{}\",{:.0f},{},{},{},{}\n", times_.back(), name,
                            port.queue_kb.back() * kBytesPerKilo, port.marked, port.dropped, port.pauses_sent,
                            port.pauses_received);
    }
    return text;
}

}  // namespace urnic::cli
