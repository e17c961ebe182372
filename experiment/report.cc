#include "experiment/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/fluid.h"

namespace urnic::experiment {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kNsPerUs = 1'000;
constexpr double kThousand = 1'000;
// Ethernet, IPv4, UDP, BTH, ICRC, FCS, preamble and gap.
constexpr std::uint32_t kHeaderBytes = 14 + 20 + 8 + 12 + 4 + 24;

// Six decimals: enough for every figure here, and the same text everywhere.
double rounded(double value) {
    constexpr double kParts = 1e6;
    return std::round(value * kParts) / kParts;
}

double us(TimeNs time) { return static_cast<double>(time) / kNsPerUs; }

double steady_ns(const Results& results) {
    return results.sampled_at.empty()
               ? 0
               : static_cast<double>(results.sampled_at.back() - results.steady_from_ns);
}

double steady_gbit(const Results& results, const FlowResult& flow) {
    const double span = steady_ns(results);
    return span == 0 ? 0 : 8.0 * static_cast<double>(flow.steady_bytes) / span;
}

double mean_queue(const Results& results, const PortResult& port) {
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < port.queue_bytes.size(); ++i) {
        if (results.sampled_at[i] > results.steady_from_ns) {
            sum += static_cast<double>(port.queue_bytes[i]);
            ++count;
        }
    }
    return count == 0 ? 0 : sum / count;
}

std::uint64_t total_of(const Results& results, std::uint64_t netsim::SwitchPortCounters::*counter) {
    std::uint64_t sum = 0;
    for (const PortResult& port : results.ports) {
        sum += port.counters.*counter;
    }
    return sum;
}

bool is_infiniband(const ExperimentConfig& config) { return config.link_layer == LinkLayer::kInfiniband; }

/// Time without credit, of all ports of switches, or of all hosts'.
TimeNs xmit_wait_of(const Results& results, bool of_hosts) {
    TimeNs sum = 0;
    for (const PortResult& port : results.ports) {
        sum += port.is_host == of_hosts && !port.xmit_wait_ns.empty() ? port.xmit_wait_ns.back() : 0;
    }
    return sum;
}

/// The part of the time after the warm-up.
double xmit_wait_part(const Results& results, const PortResult& port) {
    const double span = steady_ns(results);
    return span == 0 || port.xmit_wait_ns.empty()
               ? 0
               : static_cast<double>(port.xmit_wait_ns.back() - port.xmit_wait_at_warm_up_ns) / span;
}

Json queue_of(const Results& results, const PortResult& port) {
    Json json;
    json["mean"] = rounded(mean_queue(results, port) / kThousand);
    for (const auto& [name, part] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1.0}}) {
        json[name] = static_cast<double>(queue_quantile(results, port, part)) / kThousand;
    }
    return json;
}

Json summary_of(const ExperimentConfig& config, const Results& results) {
    Json json;
    double goodput = 0;
    std::uint64_t failed = 0;
    for (const FlowResult& flow : results.flows) {
        goodput += steady_gbit(results, flow);
        failed += flow.has_failed ? 1 : 0;
    }
    const PortResult& busiest = busiest_port(results);
    json["jain"] = rounded(jain_index(results));
    json["goodput_gbit"] = rounded(goodput);
    json["busiest_port"] = busiest.name;
    json["utilisation"] = rounded(utilisation(results, busiest));
    json["queue_kb"] = queue_of(results, busiest);
    json["marked_by_switches"] = total_of(results, &netsim::SwitchPortCounters::marked);
    json["marked_at_hosts"] = results.total.marks;
    json["cnps_sent"] = results.total.cnps_sent;
    json["cnps_handled"] = results.total.cnps_handled;
    json["pauses"] = total_of(results, &netsim::SwitchPortCounters::pauses_sent);
    json["pauses_to_hosts"] = results.total.host_pauses;
    if (is_infiniband(config)) {
        json["xmit_wait_us"] = us(xmit_wait_of(results, false));
        json["xmit_wait_of_hosts_us"] = us(xmit_wait_of(results, true));
    }
    json["watchdog_trips"] = total_of(results, &netsim::SwitchPortCounters::watchdog_trips);
    json["drops"] = results.total.drops;
    json["sent_again"] = results.total.sent_again;
    json["sent_again_per_drop"] = results.total.drops == 0
                                      ? 0
                                      : rounded(static_cast<double>(results.total.sent_again) /
                                                static_cast<double>(results.total.drops));
    json["timeouts"] = results.total.timeouts;
    json["failed_flows"] = failed;
    json["packets"] = results.total.packets;
    json["events"] = results.total.events;
    return json;
}

const FlowConfig* first_flow_to(const ExperimentConfig& config, const std::string& host,
                                std::uint32_t& flows) {
    const FlowConfig* first = nullptr;
    for (const FlowConfig& flow : config.flows) {
        if (flow.to == host) {
            ++flows;
            first = first == nullptr ? &flow : first;
        }
    }
    return first;
}

// For a port that leads to a host: all flows to it share it.
Json fluid_of(const ExperimentConfig& config, const Results& results) {
    const auto found =
        std::find_if(results.ports.begin(), results.ports.end(),
                     [&config](const PortResult& port) { return port.name == config.fluid_port; });
    if (found == results.ports.end()) {
        return nullptr;
    }
    FluidModel model;
    const FlowConfig* const flow =
        first_flow_to(config, found->name.substr(found->name.find('>') + 1), model.flows);
    if (flow == nullptr) {
        return nullptr;
    }
    const auto sender = std::find_if(config.hosts.begin(), config.hosts.end(),
                                     [flow](const HostConfig& host) { return host.name == flow->from; });
    model.dcqcn = sender->settings.rate.dcqcn;
    model.min_time_between_cnps_ns = sender->settings.min_time_between_cnps_ns;
    model.ecn = config.fabric.switches.ecn[config.rnic.priority];
    model.rate = found->rate;
    model.packet_bytes = config.rnic.mtu_bytes + kHeaderBytes;
    const FluidPoint point = fixed_point(model);
    if (!point.is_valid) {
        return nullptr;
    }
    Json json;
    json["port"] = found->name;
    json["flows"] = model.flows;
    json["marked"] = rounded(point.marked);
    json["marked_short_form"] = rounded(approximate_marking(model));
    json["queue_kb"] = rounded(point.queue_bytes / kThousand);
    json["alpha"] = rounded(point.alpha);
    json["target_gbit"] = rounded(point.target_gbit);
    // There and back over two links each way; the queue's own delay is in none of the papers' figures.
    const netsim::TopologyLink& link = config.topology.links[0];
    const FluidCourse moves =
        course(model, results.steady_from_ns, config.duration_ns, 4 * link.spec.delay_ns);
    json["utilisation"] = rounded(moves.utilisation);
    json["course_queue_kb"] = {{"mean", rounded(moves.queue_bytes / kThousand)},
                               {"least", rounded(moves.least_queue_bytes / kThousand)},
                               {"most", rounded(moves.most_queue_bytes / kThousand)}};
    const double sent = static_cast<double>(found->counters.tx_packets - found->at_warm_up.tx_packets);
    json["ours_marked"] =
        sent == 0 ? 0
                  : rounded(static_cast<double>(found->counters.marked - found->at_warm_up.marked) / sent);
    json["ours_queue_kb"] = rounded(mean_queue(results, *found) / kThousand);
    return json;
}

Json flow_json(const ExperimentConfig& experiment, const FlowConfig& config, const Results& results,
               const FlowResult& flow) {
    Json json;
    json["name"] = config.name;
    json["from"] = config.from;
    json["to"] = config.to;
    json["verb"] = config.verb == Verb::kRead ? "read" : "write";
    if (is_infiniband(experiment)) {
        json["sl"] = config.sl;
    } else {
        json["udp_source_port"] = flow.udp_source_port;
    }
    json["steady_gbit"] = rounded(steady_gbit(results, flow));
    json["is_steady"] = flow.is_steady;
    json["bytes"] = flow.bytes;
    json["messages"] = flow.messages;
    json["finished_us"] = flow.finished_ns == kNever ? Json(nullptr) : Json(us(flow.finished_ns));
    json["cnps"] = flow.cnps;
    json["has_failed"] = flow.has_failed;
    return json;
}

Json port_json(const ExperimentConfig& config, const Results& results, const PortResult& port) {
    Json json;
    json["name"] = port.name;
    json["utilisation"] = rounded(utilisation(results, port));
    json["queue_kb"] = queue_of(results, port);
    json["packets"] = port.counters.tx_packets;
    json["marked"] = port.counters.marked;
    json["dropped"] = port.counters.dropped + port.counters.watchdog_dropped;
    if (is_infiniband(config)) {
        json["xmit_wait_us"] = us(port.xmit_wait_ns.empty() ? 0 : port.xmit_wait_ns.back());
        json["xmit_wait_part"] = rounded(xmit_wait_part(results, port));
        return json;
    }
    json["pauses_sent"] = port.counters.pauses_sent;
    json["pauses_received"] = port.counters.pauses_received;
    return json;
}

bool ever_waited(const PortResult& port) {
    return std::any_of(port.queue_bytes.begin(), port.queue_bytes.end(),
                       [](std::uint64_t bytes) { return bytes != 0; });
}

bool ever_lacked_credit(const PortResult& port) {
    return !port.xmit_wait_ns.empty() && port.xmit_wait_ns.back() != 0;
}

Json series_of(const ExperimentConfig& config, const Results& results) {
    Json json;
    Json& times = json["time_us"] = Json::array();
    for (const TimeNs at : results.sampled_at) {
        times.push_back(us(at));
    }
    using Field = double FlowSample::*;
    for (const auto& [name, field] :
         {std::pair<const char*, Field>{"goodput_gbit", &FlowSample::goodput_gbit},
          {"rate_gbit", &FlowSample::rate_gbit},
          {"target_gbit", &FlowSample::target_gbit},
          {"alpha", &FlowSample::alpha}}) {
        Json& of_flows = json[name] = Json::object();
        for (std::size_t i = 0; i < results.flows.size(); ++i) {
            Json& list = of_flows[config.flows[i].name] = Json::array();
            for (const FlowSample& sample : results.flows[i].samples) {
                list.push_back(rounded(sample.*field));
            }
        }
    }
    Json& queues = json["queue_kb"] = Json::object();
    for (const PortResult& port : results.ports) {
        if (port.is_host || !ever_waited(port)) {
            continue;  // hosts' queues are those of their QPs
        }
        Json& list = queues[port.name] = Json::array();
        for (const std::uint64_t bytes : port.queue_bytes) {
            list.push_back(static_cast<double>(bytes) / kThousand);
        }
    }
    if (is_infiniband(config)) {
        Json& waits = json["xmit_wait_us"] = Json::object();
        for (const PortResult& port : results.ports) {
            if (ever_lacked_credit(port)) {
                Json& list = waits[port.name] = Json::array();
                for (const TimeNs so_far : port.xmit_wait_ns) {
                    list.push_back(us(so_far));
                }
            }
        }
    }
    using Count = std::uint64_t TotalSample::*;
    for (const auto& [name, field] : {std::pair<const char*, Count>{"marks", &TotalSample::marks},
                                      {"cnps", &TotalSample::cnps},
                                      {"pauses", &TotalSample::pauses},
                                      {"drops", &TotalSample::drops}}) {
        Json& list = json[name] = Json::array();
        for (const TotalSample& sample : results.totals) {
            list.push_back(sample.*field);
        }
    }
    return json;
}

Json run_json(const Finished& finished, bool with_series) {
    const ExperimentConfig& config = finished.run->config;
    const Results& results = *finished.results;
    Json json;
    json["label"] = finished.run->label;
    json["link_layer"] = is_infiniband(config) ? "infiniband" : "ethernet";
    json["seed"] = config.seed;
    json["duration_us"] = us(config.duration_ns);
    json["steady_from_us"] = us(results.steady_from_ns);
    json["summary"] = summary_of(config, results);
    json["fluid"] = fluid_of(config, results);
    Json& flows = json["flows"] = Json::array();
    for (std::size_t i = 0; i < results.flows.size(); ++i) {
        flows.push_back(flow_json(config, config.flows[i], results, results.flows[i]));
    }
    Json& ports = json["ports"] = Json::array();
    for (const PortResult& port : results.ports) {
        if (port.counters.tx_packets != 0 || port.counters.dropped != 0) {
            ports.push_back(port_json(config, results, port));
        }
    }
    if (with_series) {
        json["series"] = series_of(config, results);
    }
    return json;
}

}  // namespace

double jain_index(const Results& results) {
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (const FlowResult& flow : results.flows) {
        if (flow.is_steady) {
            const auto bytes = static_cast<double>(flow.steady_bytes);
            sum += bytes;
            squares += bytes * bytes;
            ++count;
        }
    }
    return squares == 0 ? 0 : sum * sum / (count * squares);
}

double utilisation(const Results& results, const PortResult& port) {
    const double span = steady_ns(results);
    const auto bytes = static_cast<double>(port.counters.tx_bytes - port.at_warm_up.tx_bytes);
    constexpr double kNsPerSecond = 1e9;
    return span == 0 ? 0 : 8.0 * bytes * kNsPerSecond / (span * static_cast<double>(port.rate));
}

const PortResult& busiest_port(const Results& results) {
    const auto used = [&results](const PortResult& port) {
        return port.is_host ? -1 : utilisation(results, port);
    };
    return *std::max_element(results.ports.begin(), results.ports.end(),
                             [&used](const PortResult& a, const PortResult& b) { return used(a) < used(b); });
}

std::uint64_t queue_quantile(const Results& results, const PortResult& port, double part) {
    std::vector<std::uint64_t> lengths;
    for (std::size_t i = 0; i < port.queue_bytes.size(); ++i) {
        if (results.sampled_at[i] > results.steady_from_ns) {
            lengths.push_back(port.queue_bytes[i]);
        }
    }
    if (lengths.empty()) {
        return 0;
    }
    const auto place = static_cast<std::size_t>(std::ceil(part * static_cast<double>(lengths.size())));
    const auto at = lengths.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(place, 1) - 1);
    std::nth_element(lengths.begin(), at, lengths.end());
    return *at;
}

std::string to_json(std::span<const Finished> runs, bool with_series) {
    Json json;
    json["name"] = runs.empty() ? "" : runs[0].run->config.name;
    if (!runs.empty() && runs[0].run->is_variant) {
        json["is_comparison"] = true;
    }
    Json& list = json["runs"] = Json::array();
    for (const Finished& run : runs) {
        list.push_back(run_json(run, with_series));
    }
    return json.dump(1, '\t') + "\n";
}

std::string flows_csv(std::span<const Finished> runs) {
    std::string text = "run,time_us,flow,goodput_gbit,rate_gbit,target_gbit,alpha\n";
    for (const Finished& each : runs) {
        const Results& results = *each.results;
        for (std::size_t at = 0; at < results.sampled_at.size(); ++at) {
            for (std::size_t i = 0; i < results.flows.size(); ++i) {
                const FlowSample& sample = results.flows[i].samples[at];
                text += fmt::format("\"{}\",{},\"{}\",{:.6f},{:.6f},{:.6f},{:.6f}\n", each.run->label,
                                    us(results.sampled_at[at]), each.run->config.flows[i].name,
                                    sample.goodput_gbit, sample.rate_gbit, sample.target_gbit, sample.alpha);
            }
        }
    }
    return text;
}

std::string ports_csv(std::span<const Finished> runs) {
    std::string text = "run,time_us,port,queue_bytes,xmit_wait_us\n";
    for (const Finished& each : runs) {
        const Results& results = *each.results;
        for (const PortResult& port : results.ports) {
            const bool is_shown = ever_waited(port) || ever_lacked_credit(port);
            for (std::size_t at = 0; is_shown && at < results.sampled_at.size(); ++at) {
                text += fmt::format(
                    "\"{}\",{},\"{}\",{},{}\n", each.run->label, us(results.sampled_at[at]), port.name,
                    port.queue_bytes[at],
                    port.xmit_wait_ns.empty() ? "" : fmt::format("{}", us(port.xmit_wait_ns[at])));
            }
        }
    }
    return text;
}

std::string summary_text(const Finished& run) {
    const Results& results = *run.results;
    const Json summary = summary_of(run.run->config, results);
    const PortResult& busiest = busiest_port(results);
    std::string text = fmt::format(
        "{}{}{}: {} flows, Jain {:.4f}, {:.2f} Gbit/s; {} used to {:.1f} %, its queue {:.1f} KB "
        "(90 %: {:.1f} KB, most {:.1f} KB)\n",
        run.run->config.name, run.run->label.empty() ? "" : ", ", run.run->label, results.flows.size(),
        jain_index(results), summary["goodput_gbit"].get<double>(), busiest.name,
        100 * utilisation(results, busiest), mean_queue(results, busiest) / kThousand,
        static_cast<double>(queue_quantile(results, busiest, 0.9)) / kThousand,
        static_cast<double>(queue_quantile(results, busiest, 1)) / kThousand);
    text += is_infiniband(run.run->config)
                ? fmt::format("  without credit: ports of switches {:.0f} us, of hosts {:.0f} us",
                              us(xmit_wait_of(results, false)), us(xmit_wait_of(results, true)))
                : fmt::format("  {} marked, {} CNPs, {} pauses",
                              summary["marked_by_switches"].get<std::uint64_t>(), results.total.cnps_sent,
                              summary["pauses"].get<std::uint64_t>());
    text += fmt::format(", {} drops, {} packets sent again, {} time-outs\n", results.total.drops,
                        results.total.sent_again, results.total.timeouts);
    if (const auto failed = summary["failed_flows"].get<std::uint64_t>(); failed != 0) {
        text += fmt::format("  {} flows failed: retries ran out\n", failed);
    }
    return text;
}

}  // namespace urnic::experiment
