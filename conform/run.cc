#include "conform/run.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "base/address_text.h"
#include "conform/live/probe.h"
#include "conform/pages.h"
#include "conform/report.h"
#include "os/setup_error.h"

namespace urnic::conform {

namespace {

constexpr int kAgentPatienceMs = 5'000;
constexpr TimeNs kArpPatienceNs = 3'000'000'000;
constexpr TimeNs kSaveEachNs = 1'000'000'000;
constexpr const char* kAgentPort = "18590";

std::string interface_of(const std::string& port) {
    constexpr std::string_view kKind = "af_packet:";
    if (!port.starts_with(kKind)) {
        throw SetupError("--port " + port + " is not known; it is af_packet:INTERFACE");
    }
    return port.substr(kKind.size());
}

Gid mapped(const Ipv4Address& address) {
    Gid gid{};
    gid[10] = gid[11] = 0xff;
    std::copy(address.begin(), address.end(), gid.begin() + 12);
    return gid;
}

}  // namespace

Ipv4Address peer_address(const std::string& text) {
    in_addr address{};
    if (::inet_pton(AF_INET, text.c_str(), &address) != 1) {
        throw SetupError("'" + text +
                         "' is no IPv4 address: PEER is that of the device under test, such as 192.0.2.10");
    }
    Ipv4Address bytes{};
    std::memcpy(bytes.data(), &address, bytes.size());
    constexpr unsigned kFirstMulticast = 224;
    if (bytes[0] >= kFirstMulticast || bytes[0] == 0 || bytes[0] == 127) {
        throw SetupError(text +
                         " is multicast, broadcast or this host: the tester sends to one device alone");
    }
    return bytes;
}

class Run::Neighbour final : public PathProof {
  public:
    Neighbour(PacketPort& port, const Ipv4Address& peer) : port_(port), peer_(peer), lost_(port.lost()) {}
    std::string prove() override {
        constexpr int kTimes = 10;
        const std::uint64_t lost = port_.lost();
        if (std::exchange(lost_, lost) != lost) {
            return "the port has lost frames";
        }
        for (int i = 0; i < kTimes; ++i) {
            if (!port_.resolve(peer_, kArpPatienceNs)) {
                return "the device's host does not answer ARP any more";
            }
        }
        return {};
    }

  private:
    PacketPort& port_;
    Ipv4Address peer_;
    std::uint64_t lost_;
};

Run::Run(const Options& options)
    : options_(options),
      peer_(peer_address(options.peer)),
      port_(interface_of(options.port), options.rate),
      path_(find_path()),
      channel_(agent_host(), agent_port(), kAgentPatienceMs),
      agent_(channel_),
      bench_(port_, agent_, path_, first_qp()) {
    run_.facts.label = options.label;
    run_.facts.peer = options.peer;
    run_.facts.port = options.port;
    run_.facts.seed = options.seed;
    if (options.resume) {
        resume();
    }
}

LivePath Run::find_path() {
    if (!port_.is_neighbour(peer_)) {
        throw SetupError(options_.peer + " is no host of the network that " + options_.port + " is on (" +
                         ipv4_text(port_.address()) + "); the tester and the device have to be on one link");
    }
    const std::optional<Mac> mac = port_.resolve(peer_, kArpPatienceNs);
    if (!mac) {
        throw SetupError("nobody answers ARP for " + options_.peer + " on " + options_.port +
                         "; is the device's address right, and the cable in?");
    }
    constexpr unsigned kGroupBit = 1;
    if (((*mac)[0] & kGroupBit) != 0) {
        throw SetupError(options_.peer + " has the MAC of a group, " + mac_text(*mac) +
                         "; the tester sends to one device alone");
    }
    return {port_.mac(), *mac, mapped(port_.address()), mapped(peer_)};
}

std::string Run::agent_host() const {
    const std::string host = options_.agent.substr(0, options_.agent.find(':'));
    return host.empty() ? options_.peer : host;
}

std::string Run::agent_port() const {
    const std::size_t colon = options_.agent.find(':');
    return colon == std::string::npos ? kAgentPort : options_.agent.substr(colon + 1);
}

std::uint32_t Run::first_qp() const {
    std::mt19937_64 random(options_.seed);
    return static_cast<std::uint32_t>(random() % 0x70'0000U) + 0x1000U;
}

void Run::resume() {
    if (!std::filesystem::exists(options_.json)) {
        return;
    }
    RunRecord earlier = read_run(options_.json);
    if (earlier.facts.peer != options_.peer || earlier.facts.seed != options_.seed) {
        throw SetupError(options_.json + " is of a run against " + earlier.facts.peer + " with seed " +
                         std::to_string(earlier.facts.seed) +
                         "; resume that one, or name another file with --json");
    }
    std::erase_if(earlier.cases,
                  [](const CaseRecord& record) { return record.verdict == VerdictKind::kInconclusive; });
    earlier_ = std::move(earlier.cases);
    std::printf("%zu cases of %s are judged already\n", earlier_.size(), options_.json.c_str());
}

void Run::prepare() {
    auto& device = run_.facts.device;
    agent_.hello();
    device = agent_.open(options_.device, path_.device_gid);
    const auto number = [&](const char* name, std::uint32_t fallback) {
        const auto found = device.find(name);
        return found == device.end() ? fallback : static_cast<std::uint32_t>(agent_number(found->second));
    };
    DeviceFacts facts;
    facts.mtu = number("mtu", facts.mtu);
    facts.max_dest_rd_atomic = number("max_rd", facts.max_dest_rd_atomic);
    facts.max_rd_atomic = number("max_init_rd", facts.max_rd_atomic);
    facts.has_atomics = number("atomic", 1) != 0;
    bench_.set_facts(facts);
    prove_transport(bench_);
    facts.is_selective = keeps_early_packets(bench_);
    bench_.set_facts(facts);
    device["early_packets"] = facts.is_selective ? "kept" : "discarded";
    std::printf("%s at %s (%s), firmware %s, path MTU %u, early packets %s; seed %llu\n",
                device["name"].c_str(), options_.peer.c_str(), mac_text(path_.device_mac).c_str(),
                device["firmware"].c_str(), facts.mtu, device["early_packets"].c_str(),
                static_cast<unsigned long long>(options_.seed));
}

int Run::play(const std::vector<const Case*>& cases) {
    prepare();
    try {
        play_all(cases);
    } catch (const BenchFailed& failure) {
        run_.facts.ended_by = failure.what();
    }
    return finish(cases.size());
}

void Run::play_all(const std::vector<const Case*>& cases) {
    Neighbour proof(port_, peer_);
    std::string suite;
    for (const Case* entry : cases) {
        const auto judged = std::find_if(earlier_.begin(), earlier_.end(), [&](const CaseRecord& record) {
            return record_name(record) == case_name(*entry);
        });
        if (judged != earlier_.end()) {
            run_.cases.push_back(*judged);
            continue;
        }
        if (suite != entry->suite) {
            suite = entry->suite;
            std::printf("\n%s\n", suite.c_str());
        }
        play_case(*entry, proof);
        save(false);
    }
}

void Run::play_case(const Case& entry, PathProof& proof) {
    const CaseResult result = judge(entry, bench_, proof, {.attempts = options_.attempts});
    std::filesystem::path evidence;
    if (!options_.evidence.empty()) {
        evidence = std::filesystem::path(options_.evidence) / (case_name(entry) + ".pcapng");
        write_pcapng(evidence, result.trace);
    }
    run_.cases.push_back(record_of(result, evidence));
    std::fputs(case_lines(run_.cases.back()).c_str(), stdout);
    std::fflush(stdout);
}

// What a tester that is killed has judged is on disk.
void Run::save(bool is_last) {
    if (options_.json.empty() || (!is_last && port_.now() < saved_ + kSaveEachNs)) {
        return;
    }
    write_text(options_.json, to_json(run_, std::filesystem::path(options_.json).parent_path()));
    saved_ = port_.now();
}

int Run::finish(std::size_t wanted) {
    save(true);
    if (!options_.junit.empty()) {
        write_text(options_.junit, junit_report(run_));
    }
    if (!options_.html.empty()) {
        write_text(options_.html, html_report(run_, std::filesystem::path(options_.html).parent_path()));
    }
    std::printf("\n%s", summary_line(run_.cases).c_str());
    if (!run_.facts.ended_by.empty()) {
        std::fprintf(stderr, "urnic conform: ended after %zu of %zu cases: %s\n", run_.cases.size(), wanted,
                     run_.facts.ended_by.c_str());
        return kExitNotRun;
    }
    return count_verdicts(run_.cases)[VerdictKind::kFailed] != 0 ? kExitFailed : 0;
}

}  // namespace urnic::conform
