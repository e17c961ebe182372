#include "daemon/control/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "daemon/control/qp_snapshot.h"
#include "os/monotonic_clock.h"
#include "rnic/device/counters.h"

namespace urnic::daemon {

namespace {

/// Label values are text of others: programs' names.
std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\\' || c == '"') {
            result += '\\';
        }
        const auto byte = static_cast<unsigned char>(c);
        result += byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
    return result;
}

class Page {
  public:
    /// All series of a family follow.
    void family(std::string_view name, std::string_view type, std::string_view help) {
        fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    }
    template <typename Value>
    void series(std::string_view name, std::string_view labels, Value value) {
        if (labels.empty()) {
            fmt::format_to(std::back_inserter(text_), "{} {}\n", name, value);
        } else {
            fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, labels, value);
        }
    }
    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

std::string device_label(const RnicState& rnic) {
    return fmt::format("device=\"{}\"", escaped(rnic.device->name));
}

void add_daemon(Page& page, const ControlState& control, std::size_t num_clients) {
    page.family("urnic_build_info", "gauge", "The daemon's release.");
    page.series("urnic_build_info", fmt::format("version=\"{}\"", escaped(control.version)), 1);
    page.family("urnic_uptime_seconds", "gauge", "Since the daemon started.");
    page.series("urnic_uptime_seconds", "", static_cast<double>(clock_now() - control.started_ns) / 1e9);
    page.family("urnic_clients", "gauge", "Programs that have RNICs open.");
    page.series("urnic_clients", "", num_clients);
    page.family("urnic_worker_qps", "gauge", "QPs on a worker.");
    for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
        page.series("urnic_worker_qps", fmt::format("worker=\"{}\"", w), control.worker_qps[w]);
    }
    page.family("urnic_worker_long_rounds_total", "counter",
                "Rounds of a worker that took longer than 50 ms.");
    for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
        page.series("urnic_worker_long_rounds_total", fmt::format("worker=\"{}\"", w),
                    control.workers[w]->long_rounds());
    }
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

void add_devices(Page& page, const ControlState& control) {
    page.family("urnic_port_up", "gauge", "1 while the port is ACTIVE.");
    for (const auto& rnic : control.devices) {
        page.series("urnic_port_up", device_label(*rnic), rnic->device->port_state.is_up() ? 1 : 0);
    }
    page.family("urnic_rx_missed_total", "counter", "Frames that were lost before the RNIC received them.");
    for (const auto& rnic : control.devices) {
        page.series("urnic_rx_missed_total", device_label(*rnic), rnic->device->port->rx_missed());
    }
    for (const ObjectCount& object : kObjectCounts) {
        page.family(object.name, "gauge", object.what);
        for (const auto& rnic : control.devices) {
            page.series(object.name, device_label(*rnic), (*rnic).*object.count);
        }
    }
}

/// Every counter of every device, by worker: the sum over workers is what urnic status shows.
void add_counters(Page& page, const ControlState& control) {
    const auto add = [&](const char* counter, auto member) {
        const std::string name = fmt::format("urnic_{}_total", counter);
        page.family(name, "counter",
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

void add_qps(Page& page, const ControlState& control, const std::vector<const ClientState*>& clients,
             std::size_t max_qps) {
    QpSnapshots qps = list_qps(clients);
    std::unordered_set<const dataplane::QpSlot*> seen;
    std::erase_if(qps, [&](const QpSnapshot& qp) { return !seen.insert(qp.slot).second; });
    const std::size_t left_out = qps.size() - std::min(qps.size(), max_qps);
    qps.resize(qps.size() - left_out);
    query_qps(control, qps);
    const auto labels = [](const QpSnapshot& qp) {
        return fmt::format("device=\"{}\",qpn=\"{:#x}\"", escaped(qp.slot->device->name),
                           qp.slot->qp->qp_num());
    };
    page.family("urnic_qps_without_series", "gauge", "QPs beyond http_qps of the daemon's configuration.");
    page.series("urnic_qps_without_series", "", left_out);
    if (qps.empty()) {
        return;
    }
    page.family("urnic_qp_info", "gauge", "A QP: its program, state and peer.");
    for (const QpSnapshot& qp : qps) {
        page.series("urnic_qp_info",
                    fmt::format("{},worker=\"{}\",state=\"{}\",peer_qpn=\"{:#x}\",program=\"{}\"", labels(qp),
                                qp.worker, qp_state_name(qp.attr.state), qp.attr.dest_qp_num,
                                escaped(qp.client->program)),
                    1);
    }
    page.family("urnic_qp_rate_bits_per_second", "gauge", "How fast congestion control lets a QP send.");
    for (const QpSnapshot& qp : qps) {
        if (qp.settings != nullptr) {
            page.series("urnic_qp_rate_bits_per_second", labels(qp), qp.rate);
        }
    }
    page.family("urnic_qp_cnps_total", "counter", "Congestion notifications that a QP has received.");
    for (const QpSnapshot& qp : qps) {
        if (qp.settings != nullptr) {
            page.series("urnic_qp_cnps_total", labels(qp), qp.cnps);
        }
    }
}

}  // namespace

std::string metrics_text(const ControlState& control, const std::vector<const ClientState*>& clients,
                         std::size_t max_qps) {
    Page page;
    add_daemon(page, control, clients.size());
    add_devices(page, control);
    add_counters(page, control);
    add_qps(page, control, clients, max_qps);
    return page.take();
}

}  // namespace urnic::daemon
