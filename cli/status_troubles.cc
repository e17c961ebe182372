#include "cli/status_troubles.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace urnic::cli {
namespace {

using StatusJson = nlohmann::ordered_json;

/// `text` follows the number; with it and the name of an RNIC it fits on a line of 80 columns.
struct Meaning {
    std::string_view counter;
    std::string_view text;
};

/// Counters of a device whose growth means that something is wrong. Those that count the same at the other
/// end of a connection, or the cause of one of these, are not here.
constexpr std::array kCounters{
    Meaning{"local_ack_timeout_err", "timeouts without an ACK: loss, MTU of the path, or no peer"},
    Meaning{"out_of_sequence", "packets came early: others were lost or overtaken"},
    Meaning{"packet_seq_err", "NAKs of peers: packets sent here were lost or overtaken"},
    Meaning{"out_of_buffer", "messages without a receive WQE: too few are posted"},
    Meaning{"rnr_nak_retry_err", "RNR NAKs came: the peer posts too few receives"},
    Meaning{"req_transport_retries_exceeded", "QPs ended: the peer did not answer any more"},
    Meaning{"req_rnr_retries_exceeded", "QPs ended: the peer had no receives for too long"},
    Meaning{"resp_remote_access_errors", "requests of peers for memory that they may not reach"},
    Meaning{"req_remote_access_errors", "requests refused by peers: R_Key, range or rights"},
    Meaning{"req_remote_invalid_request", "requests refused by peers as invalid for the QP"},
    Meaning{"resp_local_length_error", "messages were longer than the receive WQE"},
    Meaning{"rx_icrc_encapsulated", "packets were damaged on the way (ICRC)"},
    Meaning{"cq_overrun", "CQs overrun: more completions than they have entries"},
    Meaning{"drop_malformed", "packets were malformed"},
    Meaning{"drop_unknown_qp", "packets for QPs that are not there (any more)"},
    Meaning{"drop_wrong_sender", "packets from another address than the QP's peer"},
    Meaning{"drop_qp_state", "packets for QPs that are not ready"},
    Meaning{"drop_pkey", "packets of another partition (P_Key)"},
    Meaning{"drop_qkey", "datagrams with another Q_Key"},
    Meaning{"drop_no_mbuf", "packets dropped: buffers ran out"},
    Meaning{"drop_tx_full", "packets dropped: the port's transmit queue was full"},
    Meaning{"drop_steering_full", "packets dropped: a worker did not keep up"},
    Meaning{"drop_mad_full", "management datagrams dropped: too many at once"},
    Meaning{"drop_port_down", "packets dropped: the port was down"},
    Meaning{"drop_no_neighbour", "packets for addresses that nobody answers for (ARP)"},
};
constexpr std::array kPortCounters{
    Meaning{"rx_missed", "frames lost in front of a worker: it is too slow"},
};
constexpr std::array kCmCounters{
    Meaning{"timeouts", "connection requests were not answered"},
    Meaning{"dropped_backlog", "connection requests dropped: a listener's backlog is full"},
    Meaning{"dropped_half_open", "connection requests dropped: too many are half open"},
    Meaning{"dropped_full", "connection requests dropped: no room for records"},
    Meaning{"malformed", "messages of connection management were malformed"},
};
constexpr std::array kNetworkCounters{
    Meaning{"dropped", "packets dropped: the switch's queue was full"},
    Meaning{"watchdog_trips", "pauses ended by the switch's watchdog"},
};

constexpr std::array kFabricCounters{
    Meaning{"unknown_destinations", "frames for a MAC or LID that no RNIC on it has"},
};

/// The entry of `list` whose `name` is the same as that of `entry`; an empty object: there is none.
const StatusJson& same(const StatusJson& list, const StatusJson& entry, const char* name) {
    static const StatusJson none = StatusJson::object();
    if (!list.is_array()) return none;
    for (const StatusJson& other : list) {
        if (other.is_object() && other.value(name, StatusJson()) == entry.at(name)) return other;
    }
    return none;
}

const StatusJson& member(const StatusJson& object, const char* name) {
    static const StatusJson none = StatusJson::object();
    const auto found = object.find(name);
    return found == object.end() ? none : *found;
}

std::uint64_t growth(const StatusJson& now, const StatusJson& earlier, std::string_view name) {
    const std::uint64_t value = status_number(now, name);
    const std::uint64_t before = status_number(earlier, name);
    return value > before ? value - before : 0;
}

template <std::size_t N>
void add_grown(std::vector<std::string>& to, const std::string& who, const std::array<Meaning, N>& meanings,
               const StatusJson& now, const StatusJson& earlier) {
    for (const Meaning& meaning : meanings) {
        const std::uint64_t count = growth(now, earlier, meaning.counter);
        if (count != 0) to.push_back(fmt::format("{}: {} {}", who, count, meaning.text));
    }
}

void add_device(std::vector<std::string>& to, const StatusJson& device, const StatusJson& earlier) {
    const auto name = device.at("name").get<std::string>();
    const StatusJson& port = device.at("port");
    if (port.at("state") != "ACTIVE") {
        to.push_back(fmt::format("{0}: its port is down (urnic port {0} up)", name));
    }
    add_grown(to, name, kPortCounters, port, member(earlier, "port"));
    add_grown(to, name, kCounters, device.at("counters"), member(earlier, "counters"));
    add_grown(to, name, kCmCounters, member(device, "cm"), member(earlier, "cm"));
    const StatusJson& pfc = member(device, "pfc");
    std::size_t priority = 0;
    for (const StatusJson& entry : member(pfc, "priorities")) {
        if (entry.value("paused", false)) {
            to.push_back(fmt::format("{}: priority {} is paused by the network (PFC)", name, priority));
        }
        ++priority;
    }
}

void add_rest(std::vector<std::string>& to, const StatusJson& status, const StatusJson& earlier) {
    for (const StatusJson& worker : status.at("workers")) {
        const StatusJson& before = same(member(earlier, "workers"), worker, "index");
        const std::uint64_t rounds = growth(worker, before, "long_rounds");
        if (rounds != 0) {
            to.push_back(fmt::format("worker {}: {} rounds took longer than 50 ms (the log says whose)",
                                     status_number(worker, "index"), rounds));
        }
    }
    for (const StatusJson& fabric : member(status, "fabrics")) {
        add_grown(to, "fabric " + fabric.at("fabric").get<std::string>(), kFabricCounters, fabric,
                  same(member(earlier, "fabrics"), fabric, "fabric"));
    }
    for (const StatusJson& network : status.at("networks")) {
        const StatusJson& before = same(member(earlier, "networks"), network, "fabric");
        for (const StatusJson& port : network.at("ports")) {
            const auto name = fmt::format("fabric {} to {}", network.at("fabric").get<std::string>(),
                                          port.at("device").get<std::string>());
            add_grown(to, name, kNetworkCounters, port, same(member(before, "ports"), port, "device"));
        }
    }
    const std::size_t faults = status.at("faults").size();
    if (faults != 0) {
        to.push_back(fmt::format("{} in force, which is meant to do harm (urnic fault list)",
                                 faults == 1 ? "one fault is" : fmt::format("{} faults are", faults)));
    }
}

}  // namespace

std::uint64_t status_number(const StatusJson& object, std::string_view name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number_integer()) return 0;
    const bool is_negative = !found->is_number_unsigned() && found->get<std::int64_t>() < 0;
    return is_negative ? 0 : found->get<std::uint64_t>();
}

std::vector<std::string> troubles(const StatusJson& status, const StatusJson& earlier) {
    std::vector<std::string> found;
    for (const StatusJson& device : status.at("devices")) {
        add_device(found, device, same(member(earlier, "devices"), device, "name"));
    }
    add_rest(found, status, earlier);
    return found;
}

}  // namespace urnic::cli
