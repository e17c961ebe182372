#include "dataplane/status.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "dataplane/fault_json.h"
#include "rnic/device/counters.h"

namespace urnic::dataplane {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kStateNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

const char* state_name(QpState state) {
    const auto index = static_cast<std::size_t>(state);
    return index < kStateNames.size() ? kStateNames[index] : "?";
}

Json counters_json(const Counters& counters) {
    Json result = Json::object();
    for_each_counter(counters, [&](const char* name, std::uint64_t value) { result[name] = value; });
    return result;
}

Json daemon_json(const Host& host) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::uint64_t now_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<std::uint64_t>(now.tv_nsec);
    return {{"version", host.version},
            {"abi_version", abi::kAbiVersion},
            {"pid", ::getpid()},
            {"uptime_seconds", (now_ns - host.started_ns) / 1'000'000'000ULL}};
}

Json device_json(const HostDevice& entry, std::uint32_t num_workers) {
    const Device& device = *entry.device;
    Json gids = Json::array();
    for (const wire::Gid& gid : device.gids) {
        if (gid != wire::Gid{}) {
            gids.push_back(to_string(gid));
        }
    }
    Json sums = Json::object();
    Json per_worker = Json::array();
    for (std::uint32_t w = 0; w < num_workers; ++w) {
        for_each_counter(device.counters[w], [&](const char* name, std::uint64_t value) {
            sums[name] = sums.value(name, std::uint64_t{0}) + value;
        });
        per_worker.push_back(counters_json(device.counters[w]));
    }
    return {
        {"name", device.name},
        {"node_guid", guid_to_string(device.node_guid)},
        {"mac", to_string(device.mac)},
        {"gids", gids},
        {"port", {{"number", 1}, {"state", "ACTIVE"}, {"link_layer", "Ethernet"}, {"mtu", device.mtu_bytes}}},
        {"qps", entry.num_qps},
        {"cqs", entry.num_cqs},
        {"mrs", entry.num_mrs},
        {"pds", entry.num_pds},
        {"counters", sums},
        {"counters_per_worker", per_worker}};
}

Json worker_json(const Host& host, std::uint32_t index) {
    return {{"index", index},
            {"cpu", host.worker_cpus[index]},
            {"qps", host.worker_qps[index]},
            {"sleeping", host.daemon_state().workers[index].sleeping.load() != 0}};
}

/// Attributes of every QP, read on the QP's own worker.
std::map<const QpObject*, abi::QpAttr> query_all(const Host& host,
                                                 const std::vector<const Client*>& clients) {
    std::map<const QpObject*, abi::QpAttr> attributes;
    for (const Client* client : clients) {
        for (const auto& [handle, qp] : client->qps()) {
            attributes.emplace(qp.get(), abi::QpAttr{});
        }
    }
    for (std::uint32_t w = 0; w < host.num_workers(); ++w) {
        if (host.worker_qps[w] == 0) {
            continue;
        }
        host.workers[w]->call([&] {
            for (auto& [qp, attr] : attributes) {
                if (qp->worker == w) {
                    qp->slot.qp->query(attr);
                }
            }
        });
    }
    return attributes;
}

Json client_json(const Client& client, const std::map<const QpObject*, abi::QpAttr>& attributes) {
    Json qps = Json::array();
    for (const auto& [handle, qp] : client.qps()) {
        const abi::QpAttr& attr = attributes.at(qp.get());
        qps.push_back({{"device", qp->slot.device->name},
                       {"qpn", qp->slot.qp->qp_num()},
                       {"state", state_name(attr.state)},
                       {"peer_qpn", attr.dest_qp_num},
                       {"worker", qp->worker}});
    }
    Json cqs = Json::array();
    for (const auto& [handle, cq] : client.cqs()) {
        cqs.push_back({{"device", cq->context->device->device->name},
                       {"entries", cq->entries},
                       {"qps", cq->users},
                       {"overrun", cq->cq->overrun()}});
    }
    Json mrs = Json::array();
    for (const auto& [handle, mr] : client.mrs()) {
        mrs.push_back({{"device", mr->pd->context->device->device->name},
                       {"addr", mr->addr},
                       {"length", mr->length_bytes},
                       {"converted", mr->window != nullptr}});
    }
    return {{"id", client.id()},
            {"pid", client.pid()},
            {"uid", client.uid()},
            {"program", client.program()},
            {"registered_bytes", client.registered_bytes()},
            {"qps", qps},
            {"cqs", cqs},
            {"mrs", mrs}};
}

}  // namespace

std::string status_json(const Host& host, const std::vector<const Client*>& clients) {
    Json result = Json::object();
    result["daemon"] = daemon_json(host);
    result["devices"] = Json::array();
    for (const auto& device : host.devices) {
        result["devices"].push_back(device_json(*device, host.num_workers()));
    }
    result["workers"] = Json::array();
    for (std::uint32_t w = 0; w < host.num_workers(); ++w) {
        result["workers"].push_back(worker_json(host, w));
    }
    result["faults"] = Json::parse(faults_json(host.faults.rules()))["faults"];
    const auto attributes = query_all(host, clients);
    result["clients"] = Json::array();
    for (const Client* client : clients) {
        result["clients"].push_back(client_json(*client, attributes));
    }
    return result.dump(2) + "\n";
}

std::string to_string(const wire::Gid& gid) {
    std::string text;
    for (std::size_t i = 0; i < gid.size(); i += 2) {
        text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid[i], gid[i + 1]);
    }
    return text;
}

std::string guid_to_string(std::uint64_t guid) {
    std::array<std::uint8_t, 8> bytes{};
    std::memcpy(bytes.data(), &guid, bytes.size());
    return fmt::format("{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}:{:02x}{:02x}", bytes[0], bytes[1], bytes[2],
                       bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]);
}

}  // namespace urnic::dataplane
