#include "cli/status_view.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/launch_error.h"
#include "cli/status_troubles.h"
#include "cli/table.h"
#include "cli/units.h"

namespace urnic::cli {
namespace {

using ViewJson = nlohmann::ordered_json;

// What fits on a screen of 24 lines beside the rest.
constexpr std::size_t kMostRnics = 6;
constexpr std::size_t kMostPrograms = 3;
constexpr std::size_t kMostTroubles = 5;
constexpr std::size_t kMostProgramName = 15;

std::string text_of(const ViewJson& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_null()) return "-";
    return value.dump();
}

std::string cell_of(const ViewJson& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() ? "-" : text_of(*found);
}

/// An address as people write it: IPv4, or IPv6 in its short form.
std::string address_text(const std::string& gid) {
    in6_addr address{};
    if (inet_pton(AF_INET6, gid.c_str(), &address) != 1) return gid;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&address);
    (void)inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? &address.s6_addr[12] : address.s6_addr,
                    text.data(), text.size());
    return text.data();
}

/// The address that programs use: the first that is not link-local; and how many others there are. Over
/// InfiniBand IP addresses are no GIDs.
std::string addresses_text(const ViewJson& device) {
    std::vector<std::string> texts;
    for (const char* const list : {"ip_addresses", "gids"}) {
        for (const ViewJson& address : device.value(list, ViewJson::array())) {
            texts.push_back(address_text(address.get<std::string>()));
        }
    }
    if (texts.empty()) return "-";
    const auto first = std::find_if(texts.begin(), texts.end(),
                                    [](const std::string& text) { return !text.starts_with("fe80"); });
    const std::string& chosen = first == texts.end() ? texts.front() : *first;
    return texts.size() == 1 ? chosen : fmt::format("{} (+{})", chosen, texts.size() - 1);
}

/// The devices asked for.
std::vector<const ViewJson*> devices_of(const ViewJson& status, const std::string& device) {
    std::vector<const ViewJson*> chosen;
    std::string known;
    for (const ViewJson& one : status.at("devices")) {
        const auto name = one.at("name").get<std::string>();
        if (device.empty() || device == name) chosen.push_back(&one);
        known += (known.empty() ? "" : ", ") + name;
    }
    if (chosen.empty() && !device.empty()) {
        throw LaunchError(fmt::format("there is no RNIC {}: the daemon has {}", device, known));
    }
    return chosen;
}

// --- the first page

struct Rates {
    const ViewJson& earlier;
    double seconds;

    [[nodiscard]] std::string of(const ViewJson& device, const char* counter) const {
        std::uint64_t before = 0;
        if (earlier.is_object()) {
            for (const ViewJson& other : earlier.at("devices")) {
                if (other.at("name") == device.at("name"))
                    before = status_number(other.at("counters"), counter);
            }
        }
        const std::uint64_t now = status_number(device.at("counters"), counter);
        return now < before || seconds <= 0 ? "-" : rate_text(static_cast<double>(now - before) / seconds);
    }
};

std::string rnics_text(const std::vector<const ViewJson*>& devices, const Rates& rates) {
    std::vector<TableRow> rows{{"RNIC", "port", "address", "QPs", "MRs", "sent", "received"}};
    for (const ViewJson* device : devices) {
        if (rows.size() > kMostRnics && devices.size() > kMostRnics + 1) break;
        rows.push_back({cell_of(*device, "name"), cell_of(device->at("port"), "state"),
                        addresses_text(*device), cell_of(*device, "qps"), cell_of(*device, "mrs"),
                        rates.of(*device, "sent_bytes"), rates.of(*device, "rcvd_bytes")});
    }
    if (rows.size() - 1 < devices.size()) {
        rows.push_back(
            {fmt::format("and {} more (urnic status counters DEVICE)", devices.size() + 1 - rows.size())});
    }
    return align_table(rows);
}

std::string programs_text(const ViewJson& status) {
    std::vector<const ViewJson*> programs;
    for (const ViewJson& client : status.at("clients")) programs.push_back(&client);
    if (programs.empty()) return "  no program has an RNIC open\n";
    std::stable_sort(programs.begin(), programs.end(), [](const ViewJson* left, const ViewJson* right) {
        return left->at("qps").size() > right->at("qps").size();
    });
    std::vector<TableRow> rows{{"program", "process", "uid", "QPs", "CQs", "MRs", "registered"}};
    for (const ViewJson* program : programs) {
        if (rows.size() > kMostPrograms && programs.size() > kMostPrograms + 1) break;
        rows.push_back({cell_of(*program, "program").substr(0, kMostProgramName), cell_of(*program, "pid"),
                        cell_of(*program, "uid"), std::to_string(program->at("qps").size()),
                        std::to_string(program->at("cqs").size()), std::to_string(program->at("mrs").size()),
                        size_text(status_number(*program, "registered_bytes"))});
    }
    if (rows.size() - 1 < programs.size()) {
        rows.push_back({fmt::format("and {} more (urnic status qps)", programs.size() + 1 - rows.size())});
    }
    return align_table(rows);
}

std::string troubles_text(const ViewJson& status, const ViewJson& earlier, const std::string& since) {
    const std::vector<std::string> found = troubles(status, earlier);
    if (found.empty()) return fmt::format("Nothing has gone wrong since {}.\n", since);
    std::string text = fmt::format("Since {}:\n", since);
    const std::size_t shown = found.size() > kMostTroubles ? kMostTroubles - 1 : found.size();
    for (std::size_t i = 0; i < shown; ++i) text += "  " + found[i] + "\n";
    if (shown < found.size()) {
        text += fmt::format("  and {} more (urnic status counters)\n", found.size() - shown);
    }
    return text;
}

std::string summary(const std::vector<const ViewJson*>& devices, const ViewJson& status,
                    const ViewJson& earlier, double seconds) {
    const ViewJson& daemon = status.at("daemon");
    const std::string since = earlier.is_object()
                                  ? fmt::format("the last look, {:.{}f} s ago", seconds, seconds < 10 ? 1 : 0)
                                  : "the daemon's start";
    return fmt::format("urnicd {}, process {}, up {}; {}, {}\n\n{}  rates since {}\n\n{}\n{}",
                       daemon.at("version").get<std::string>(), text_of(daemon.at("pid")),
                       duration_text(status_number(daemon, "uptime_seconds")),
                       plural(status.at("devices").size(), "RNIC", "RNICs"),
                       plural(status.at("workers").size(), "worker", "workers"),
                       rnics_text(devices, {earlier, seconds}), since, programs_text(status),
                       troubles_text(status, earlier, since));
}

// --- the others

bool is_of(const ViewJson& object, const std::string& device) {
    return device.empty() || object.at("device") == device;
}

/// A row for each object of each program.
template <class Cells>
std::string objects_text(const ViewJson& status, const char* kind, const std::string& device, TableRow head,
                         const Cells& cells) {
    std::vector<TableRow> rows{std::move(head)};
    for (const ViewJson& client : status.at("clients")) {
        for (const ViewJson& object : client.at(kind)) {
            if (is_of(object, device)) rows.push_back(cells(client, object));
        }
    }
    return rows.size() == 1 ? fmt::format("There are no {}.\n", kind == std::string("qps") ? "QPs" : "MRs")
                            : align_table(rows);
}

std::string qps_text(const ViewJson& status, const std::string& device) {
    return objects_text(
        status, "qps", device, {"RNIC", "QP", "type", "state", "peer QP", "worker", "program", "process"},
        [](const ViewJson& client, const ViewJson& qp) -> TableRow {
            return {cell_of(qp, "device"),      cell_of(qp, "qpn"),      cell_of(qp, "type"),
                    cell_of(qp, "state"),       cell_of(qp, "peer_qpn"), cell_of(qp, "worker"),
                    cell_of(client, "program"), cell_of(client, "pid")};
        });
}

std::string mrs_text(const ViewJson& status, const std::string& device) {
    return objects_text(status, "mrs", device,
                        {"RNIC", "address", "size", "octets", "reached by", "program", "process"},
                        [](const ViewJson& client, const ViewJson& mr) -> TableRow {
                            return {cell_of(mr, "device"),
                                    fmt::format("{:#x}", status_number(mr, "addr")),
                                    size_text(status_number(mr, "length")),
                                    cell_of(mr, "length"),
                                    mr.value("converted", false) ? "mapping" : "copy",
                                    cell_of(client, "program"),
                                    cell_of(client, "pid")};
                        });
}

/// A line for each value that is not zero in all columns, a column for each RNIC.
struct Turned {
    std::vector<TableRow> rows;
    std::size_t zeros = 0;

    template <class Value>
    void add(const std::string& name, const std::vector<const ViewJson*>& columns, const Value& value) {
        TableRow row{name};
        bool has_any = false;
        for (const ViewJson* column : columns) {
            const std::uint64_t number = value(*column);
            has_any = has_any || number != 0;
            row.push_back(std::to_string(number));
        }
        if (has_any) {
            rows.push_back(std::move(row));
        } else {
            ++zeros;
        }
    }
    [[nodiscard]] std::string text() {
        if (zeros != 0) rows.push_back({fmt::format("({} more are zero)", zeros)});
        return align_table(rows);
    }
};

Turned turned(const std::vector<const ViewJson*>& devices, const char* title) {
    TableRow head{title};
    for (const ViewJson* device : devices) head.push_back(cell_of(*device, "name"));
    return {{std::move(head)}};
}

std::string cm_text(const std::vector<const ViewJson*>& devices) {
    if (devices.empty() || !devices.front()->contains("cm")) return "The daemon has no connection manager.\n";
    Turned table = turned(devices, "connection manager");
    for (const auto& [name, value] : devices.front()->at("cm").items()) {
        table.add(name, devices, [&name = name](const ViewJson& device) {
            return status_number(device.at("cm"), name.c_str());
        });
    }
    return table.text();
}

std::string counters_text(const std::vector<const ViewJson*>& devices) {
    if (devices.empty()) return "There are no RNICs.\n";
    Turned table = turned(devices, "counter");
    for (const auto& [name, value] : devices.front()->at("counters").items()) {
        table.add(name, devices, [&name = name](const ViewJson& device) {
            return status_number(device.at("counters"), name.c_str());
        });
    }
    table.add("rx_missed (port)", devices,
              [](const ViewJson& device) { return status_number(device.at("port"), "rx_missed"); });
    const ViewJson& pfc = devices.front()->at("pfc");
    for (std::size_t priority = 0; priority < pfc.at("priorities").size(); ++priority) {
        for (const auto& [name, value] : pfc.at("priorities")[priority].items()) {
            if (!value.is_number()) continue;
            table.add(fmt::format("{} (PFC, priority {})", name, priority), devices,
                      [&name = name, priority](const ViewJson& device) {
                          return status_number(device.at("pfc").at("priorities").at(priority), name.c_str());
                      });
        }
    }
    return table.text();
}

std::string networks_text(const ViewJson& status, const std::string& device) {
    std::vector<TableRow> rows{
        {"fabric", "port", "sent", "delivered", "marked", "dropped", "queue", "longest", "pauses"}};
    const auto add = [&](const ViewJson& network, const ViewJson& port, const char* name) {
        rows.push_back({cell_of(network, "fabric"), cell_of(port, name),
                        port.contains("sent_bytes") ? size_text(status_number(port, "sent_bytes")) : "-",
                        size_text(status_number(port, "delivered_bytes")), cell_of(port, "marked"),
                        cell_of(port, "dropped"), size_text(status_number(port, "queue_bytes")),
                        size_text(status_number(port, "max_queue_bytes")), cell_of(port, "pauses_sent")});
    };
    for (const ViewJson& network : status.at("networks")) {
        for (const ViewJson& port : network.at("ports")) {
            if (is_of(port, device)) add(network, port, "device");
        }
        for (const ViewJson& trunk : network.at("trunks")) {
            if (device.empty()) add(network, trunk, "port");
        }
    }
    return rows.size() == 1 ? "There is no emulated network ([[network]], see urnicd(8)).\n"
                            : align_table(rows);
}

}  // namespace

std::optional<StatusView> status_view_named(std::string_view name) {
    if (name == "qps") return StatusView::kQps;
    if (name == "mrs") return StatusView::kMrs;
    if (name == "cm") return StatusView::kCm;
    if (name == "networks") return StatusView::kNetworks;
    if (name == "counters") return StatusView::kCounters;
    return {};
}

std::string status_page(StatusView view, const std::string& device, const ViewJson& status,
                        const ViewJson& earlier, double seconds) {
    try {
        const std::vector<const ViewJson*> devices = devices_of(status, device);
        switch (view) {
            case StatusView::kQps:
                return qps_text(status, device);
            case StatusView::kMrs:
                return mrs_text(status, device);
            case StatusView::kCm:
                return cm_text(devices);
            case StatusView::kNetworks:
                return networks_text(status, device);
            case StatusView::kCounters:
                return counters_text(devices);
            case StatusView::kSummary:
                break;
        }
        return summary(devices, status, earlier, seconds);
    } catch (const ViewJson::exception&) {
        throw LaunchError("the daemon's status is not that of this release: use the urnic of its release");
    }
}

}  // namespace urnic::cli
