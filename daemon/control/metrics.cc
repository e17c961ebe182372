#include "daemon/control/metrics.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "daemon/control/exposition.h"
#include "daemon/control/network_metrics.h"
#include "daemon/control/qp_snapshot.h"
#include "os/monotonic_clock.h"
#include "rnic/device/counters.h"
#include "rnic/device/message_histograms.h"

namespace urnic::daemon {

namespace {

constexpr double kNsPerSecond = 1e9;

std::string device_label(const RnicState& rnic) {
    return fmt::format("device=\"{}\"", escaped_label(rnic.device->name));
}

void add_daemon(Exposition& page, const ControlState& control, std::size_t num_clients) {
    page.family("urnic_build_info", MetricType::kInfo, "The daemon's release.");
    page.series("urnic_build_info", fmt::format("version=\"{}\"", escaped_label(control.version)), 1);
    page.family("urnic_uptime_seconds", MetricType::kGauge, "Since the daemon started.");
    page.series("urnic_uptime_seconds", "",
                static_cast<double>(clock_now() - control.started_ns) / kNsPerSecond);
    page.family("urnic_clients", MetricType::kGauge, "Programs that have RNICs open.");
    page.series("urnic_clients", "", num_clients);
    page.family("urnic_worker_qps", MetricType::kGauge, "QPs on a worker.");
    for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
        page.series("urnic_worker_qps", fmt::format("worker=\"{}\"", w), control.worker_qps[w]);
    }
    page.family("urnic_worker_long_rounds_total", MetricType::kCounter,
                "Rounds of a worker that took longer than 50 ms.");
    for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
        page.series("urnic_worker_long_rounds_total", fmt::format("worker=\"{}\"", w),
                    control.workers[w]->long_rounds());
    }
}

void add_control_thread(Exposition& page, const ControlTurns& turns) {
    constexpr const char* kName = "urnic_control_turn_seconds";
    page.family(
        kName, MetricType::kHistogram,
        "How long the control thread was at one connection's requests, at one step of what takes long, "
        "and at a round of all.");
    const auto add = [&](const char* kind, const TurnTimes& of_kind) {
        using Times = TurnTimes::Times;
        std::vector<HistogramBucket> buckets(Times::kBounds);
        for (std::size_t i = 0; i < buckets.size(); ++i) {
            buckets[i] = {static_cast<double>(Times::bound(i)) / kNsPerSecond, of_kind.times().count(i)};
        }
        page.histogram(kName, fmt::format("turn=\"{}\"", kind), buckets,
                       of_kind.times().count(Times::kBounds),
                       static_cast<double>(of_kind.times().sum()) / kNsPerSecond);
    };
    add("requests", turns.requests);
    add("step", turns.steps);
    add("round", turns.rounds);
}

struct ObjectCount {
    const char* name;
    std::uint32_t RnicState::*count;
    const char* what;
};
constexpr ObjectCount kObjectCounts[] = {
    {"urnic_qps", &RnicState::num_qps, "Queue pairs."},
    {"urnic_cqs", &RnicState::num_cqs, "Completion queues."},
    {"urnic_mrs", &RnicState::num_mrs, "Memory regions."},
    {"urnic_pds", &RnicState::num_pds, "Protection domains."},
    {"urnic_ahs", &RnicState::num_ahs, "Address handles."},
    {"urnic_mws", &RnicState::num_mws, "Memory windows."},
    {"urnic_srqs", &RnicState::num_srqs, "Shared receive queues."},
};

void add_devices(Exposition& page, const ControlState& control) {
    page.family("urnic_port_up", MetricType::kGauge, "1 while the port is ACTIVE.");
    for (const auto& rnic : control.devices) {
        page.series("urnic_port_up", device_label(*rnic), rnic->device->port_state.is_up() ? 1 : 0);
    }
    page.family("urnic_rx_missed_total", MetricType::kCounter,
                "Frames that were lost before the RNIC received them.");
    for (const auto& rnic : control.devices) {
        page.series("urnic_rx_missed_total", device_label(*rnic), rnic->device->port->rx_missed());
    }
    for (const ObjectCount& object : kObjectCounts) {
        page.family(object.name, MetricType::kGauge, object.what);
        for (const auto& rnic : control.devices) {
            page.series(object.name, device_label(*rnic), (*rnic).*object.count);
        }
    }
}

/// Every counter of every device, by worker: the sum over workers is what urnic status shows.
void add_counters(Exposition& page, const ControlState& control) {
    const auto add = [&](const char* counter, auto member) {
        const std::string name = fmt::format("urnic_{}_total", counter);
        page.family(name, MetricType::kCounter,
                    fmt::format("Counter {} of an RNIC, as urnic status and hw_counters have it.", counter));
        for (const auto& rnic : control.devices) {
            const std::string device = device_label(*rnic);
            for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
                page.series(name, fmt::format("{},worker=\"{}\"", device, w),
                            (rnic->device->counters[w].*member).value());
            }
        }
    };
#define URNIC_ADD(name) add(#name, &Counters::name);
    URNIC_COUNTERS(URNIC_ADD)
#undef URNIC_ADD
}

constexpr std::array<const char*, kMessageOperations> kOperationNames = {"send", "write", "read", "atomic",
                                                                         "flush"};

/// One family for all devices and operations, summed over workers. `per_unit`: of what the workers count, in
/// one of what the page says.
template <typename Histogram>
void add_histogram(Exposition& page, const ControlState& control, std::string_view name,
                   std::string_view help, Histogram MessageHistograms::OfOperation::*member,
                   double per_unit) {
    page.family(name, MetricType::kHistogram, help);
    for (const auto& rnic : control.devices) {
        for (std::size_t operation = 0; operation < kMessageOperations; ++operation) {
            std::vector<HistogramBucket> buckets(Histogram::kBounds);
            std::uint64_t above = 0;
            std::uint64_t sum = 0;
            for (const MessageHistograms& of_worker : rnic->device->message_histograms) {
                const Histogram& histogram = of_worker.operations[operation].*member;
                for (std::size_t i = 0; i < buckets.size(); ++i) {
                    buckets[i].count += histogram.count(i);
                }
                above += histogram.count(Histogram::kBounds);
                sum += histogram.sum();
            }
            for (std::size_t i = 0; i < buckets.size(); ++i) {
                buckets[i].bound = static_cast<double>(Histogram::bound(i)) / per_unit;
            }
            page.histogram(
                name, fmt::format("{},operation=\"{}\"", device_label(*rnic), kOperationNames[operation]),
                buckets, above, static_cast<double>(sum) / per_unit);
        }
    }
}

void add_histograms(Exposition& page, const ControlState& control) {
    // All devices have them, or none.
    if (control.devices.empty() || control.devices.front()->device->message_histograms.empty()) {
        return;
    }
    add_histogram(page, control, "urnic_message_size_bytes",
                  "Payload of messages that an RNIC has sent or asked for with success.",
                  &MessageHistograms::OfOperation::size_bytes, 1);
    add_histogram(page, control, "urnic_message_latency_seconds",
                  "From when a worker took a WQE of a reliable QP to its acknowledgement or last response.",
                  &MessageHistograms::OfOperation::latency_ns, kNsPerSecond);
}

/// Each once, though several clients may have it open. However many there are, no more are looked at.
QpSnapshots first_qps(const std::vector<const ClientState*>& clients, std::size_t most) {
    QpSnapshots qps;
    std::unordered_set<const dataplane::QpSlot*> seen;
    const auto add_some = [&](const ClientState& client, const auto& table) {
        for (auto at = table.begin(); at != table.end() && qps.size() < most; ++at) {
            const QpSnapshot qp = snapshot_of(client, *at->second);
            if (seen.insert(qp.slot).second) {
                qps.push_back(qp);
            }
        }
    };
    for (const ClientState* const client : clients) {
        add_some(*client, client->qps);
        add_some(*client, client->xrc_targets);
    }
    return qps;
}

void add_qps(Exposition& page, const ControlState& control, const std::vector<const ClientState*>& clients,
             std::size_t max_qps) {
    QpSnapshots qps = first_qps(clients, max_qps);
    std::size_t left_out = 0;
    for (const auto& device : control.devices) {
        left_out += device->num_qps;
    }
    left_out -= qps.size();
    query_qps(control, qps);
    page.family("urnic_qps_without_series", MetricType::kGauge,
                "QPs beyond http_qps of the daemon's configuration.");
    page.series("urnic_qps_without_series", "", left_out);
    if (qps.empty()) {
        return;
    }
    page.family("urnic_qp_info", MetricType::kGauge, "A QP: its program, state and peer.");
    for (const QpSnapshot& qp : qps) {
        page.series("urnic_qp_info",
                    fmt::format("{},worker=\"{}\",state=\"{}\",peer_qpn=\"{:#x}\",program=\"{}\"",
                                qp_labels(qp), qp.worker, qp_state_name(qp.attr.state), qp.attr.dest_qp_num,
                                escaped_label(qp.client->program)),
                    1);
    }
    page.family("urnic_qp_rate_bits_per_second", MetricType::kGauge,
                "How fast congestion control lets a QP send.");
    for (const QpSnapshot& qp : qps) {
        if (qp.settings != nullptr) {
            page.series("urnic_qp_rate_bits_per_second", qp_labels(qp), qp.rate);
        }
    }
    page.family("urnic_qp_cnps_total", MetricType::kCounter,
                "Congestion notifications that a QP has received.");
    for (const QpSnapshot& qp : qps) {
        if (qp.settings != nullptr) {
            page.series("urnic_qp_cnps_total", qp_labels(qp), qp.cnps);
        }
    }
    add_paths(page, control, qps);
}

}  // namespace

MetricsText metrics_text(const ControlState& control, const std::vector<const ClientState*>& clients,
                         std::size_t max_qps) {
    Exposition page;
    add_daemon(page, control, clients.size());
    add_control_thread(page, control.turns);
    add_devices(page, control);
    add_counters(page, control);
    add_histograms(page, control);
    add_networks(page, control);
    add_qps(page, control, clients, max_qps);
    return page.take();
}

}  // namespace urnic::daemon
