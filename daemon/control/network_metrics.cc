#include "daemon/control/network_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace urnic::daemon {

namespace {

/// Of all networks together: the page stays below a megabyte.
constexpr std::size_t kMostPorts = 1024;
/// QPs whose way worker 0 looks up for one page, between its rounds.
constexpr std::size_t kMostPaths = 1024;

struct PortSample {
    std::string labels;
    bool is_infiniband = false;
    dataplane::NetworkPortView view;
};

struct Series {
    const char* name;
    MetricType type;
    const char* help;
    std::uint64_t (*value)(const dataplane::NetworkPortView& view);
};
using View = dataplane::NetworkPortView;
constexpr Series kOfEveryPort[] = {
    {"urnic_network_port_bytes_total", MetricType::kCounter, "That a port of an emulated switch has sent.",
     [](const View& view) { return view.counters.tx_bytes; }},
    {"urnic_network_port_packets_total", MetricType::kCounter, "Packets that it has sent.",
     [](const View& view) { return view.counters.tx_packets; }},
    {"urnic_network_port_queue_bytes", MetricType::kGauge, "That wait at it now.",
     [](const View& view) { return view.queue_bytes; }},
    {"urnic_network_port_most_queue_bytes", MetricType::kGauge, "That waited at it at once, the most so far.",
     [](const View& view) { return view.counters.most_bytes; }},
};
constexpr Series kOfEthernet[] = {
    {"urnic_network_port_dropped_total", MetricType::kCounter, "Packets that found its queue full.",
     [](const View& view) { return view.counters.dropped; }},
    {"urnic_network_port_marked_total", MetricType::kCounter,
     "Packets sent with a mark (ECN CE), of it or of a switch before.",
     [](const View& view) { return view.counters.marked; }},
    {"urnic_network_port_pauses_sent_total", MetricType::kCounter, "PFC pauses that it has asked for.",
     [](const View& view) { return view.counters.pauses_sent; }},
    {"urnic_network_port_pauses_received_total", MetricType::kCounter, "PFC pauses that it has obeyed.",
     [](const View& view) { return view.counters.pauses_received; }},
};
constexpr Series kOfInfiniband[] = {
    {"urnic_network_port_xmit_wait_nanoseconds_total", MetricType::kCounter,
     "That packets waited at it for credits.", [](const View& view) { return view.infiniband.xmit_wait_ns; }},
    {"urnic_network_port_xmit_discards_total", MetricType::kCounter, "Packets that waited too long at it.",
     [](const View& view) { return view.infiniband.xmit_discards; }},
};

std::vector<PortSample> look(const ControlState& control, std::size_t& left_out) {
    std::vector<PortSample> samples;
    for (const EmulatedNetworkInfo& network : control.networks) {
        const std::size_t ports = network.devices.size() + network.trunks.size();
        const std::size_t first = samples.size();
        const std::size_t shown = std::min(ports, kMostPorts - first);
        left_out += ports - shown;
        for (std::size_t port = 0; port < shown; ++port) {
            samples.push_back({fmt::format("fabric=\"{}\",port=\"{}\"", escaped_label(network.fabric),
                                           escaped_label(network.port_name(port))),
                               network.is_infiniband,
                               {}});
        }
        control.workers[0]->call([&] {
            for (std::size_t port = 0; port < shown; ++port) {
                samples[first + port].view = network.view(static_cast<std::uint32_t>(port));
            }
        });
    }
    return samples;
}

void add_fabrics(Exposition& page, const ControlState& control) {
    if (control.fabrics.empty()) {
        return;
    }
    constexpr const char* kName = "urnic_fabric_unknown_destinations_total";
    page.family(kName, MetricType::kCounter,
                "Frames on a fabric whose destination (MAC or LID) is none of its RNICs.");
    for (const FabricInfo& fabric : control.fabrics) {
        page.series(kName, fmt::format("fabric=\"{}\"", escaped_label(fabric.name)),
                    fabric.unknown_destinations());
    }
}

}  // namespace

void add_networks(Exposition& page, const ControlState& control) {
    add_fabrics(page, control);
    if (control.networks.empty()) {
        return;
    }
    std::size_t left_out = 0;
    const std::vector<PortSample> samples = look(control, left_out);
    page.family("urnic_network_ports_without_series", MetricType::kGauge,
                "Ports of emulated switches that the page leaves out.");
    page.series("urnic_network_ports_without_series", "", left_out);
    const auto add = [&](const Series& series, auto is_meant) {
        if (std::none_of(samples.begin(), samples.end(), is_meant)) {
            return;
        }
        page.family(series.name, series.type, series.help);
        for (const PortSample& sample : samples) {
            if (is_meant(sample)) {
                page.series(series.name, sample.labels, series.value(sample.view));
            }
        }
    };
    for (const Series& series : kOfEveryPort) {
        add(series, [](const PortSample&) { return true; });
    }
    for (const Series& series : kOfEthernet) {
        add(series, [](const PortSample& sample) { return !sample.is_infiniband; });
    }
    for (const Series& series : kOfInfiniband) {
        add(series, [](const PortSample& sample) { return sample.is_infiniband; });
    }
}

void add_paths(Exposition& page, const ControlState& control, const QpSnapshots& qps) {
    std::vector<std::vector<std::uint32_t>> ways(std::min(qps.size(), kMostPaths));
    std::vector<const EmulatedNetworkInfo*> networks(ways.size());
    for (const EmulatedNetworkInfo& network : control.networks) {
        control.workers[0]->call([&] {
            for (std::size_t i = 0; i < ways.size(); ++i) {
                const auto& names = network.devices;
                const auto rnic = std::find(names.begin(), names.end(), qps[i].slot->device->name);
                if (rnic == names.end()) {
                    continue;
                }
                networks[i] = &network;
                ways[i] = network.way(static_cast<std::uint32_t>(rnic - names.begin()),
                                      std::as_bytes(std::span(qps[i].path.bytes).first(qps[i].path.length)));
            }
        });
    }
    const auto has_way = [](const auto& way) { return !way.empty(); };
    if (std::none_of(ways.begin(), ways.end(), has_way)) {
        return;
    }
    page.family("urnic_qp_path", MetricType::kGauge,
                "The ports of emulated switches that packets of a QP pass, in order.");
    for (std::size_t i = 0; i < ways.size(); ++i) {
        if (ways[i].empty()) {
            continue;
        }
        std::string ports;
        for (const std::uint32_t port : ways[i]) {
            ports += (ports.empty() ? "" : " ") + networks[i]->port_name(port);
        }
        page.series("urnic_qp_path",
                    fmt::format("{},fabric=\"{}\",ports=\"{}\"", qp_labels(qps[i]),
                                escaped_label(networks[i]->fabric), escaped_label(ports)),
                    1);
    }
}

}  // namespace urnic::daemon
