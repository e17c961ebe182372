// urnic-conform: judges the RoCEv2 transport of any device, packet by packet.
#include <unistd.h>

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "base/address_text.h"
#include "conform/live/agent.h"
#include "conform/live/judge.h"
#include "conform/live/live_bench.h"
#include "conform/live/probe.h"
#include "conform/port/packet_port.h"
#include "conform/port/tcp_agent.h"
#include "conform/report.h"
#include "os/command_line.h"
#include "os/setup_error.h"

namespace {

using namespace urnic;           // NOLINT(google-build-using-namespace)
using namespace urnic::conform;  // NOLINT(google-build-using-namespace)

constexpr int kExitFailed = 1;
constexpr int kExitNotRun = 2;
constexpr int kAgentPatienceMs = 5'000;
constexpr TimeNs kCaseLimitNs = 60'000'000'000;
constexpr TimeNs kArpPatienceNs = 3'000'000'000;
constexpr const char* kAgentPort = "18590";

constexpr const char* kFooter =
    R"(PEER is the IPv4 address of the device under test, on the network of --port. Beside the device runs
urnic-conform-agent. The tester sends packets that are wrong on purpose: to that address alone, at most --rate
a second. Keep it away from production.

Examples:
  urnic conform 192.0.2.10 --port af_packet:eth1
  urnic conform 192.0.2.10 --port af_packet:eth1 ResponderGaps RequesterRnr.Infinite 9.7.5
  urnic conform 192.0.2.10 --port af_packet:eth1 --yes --json result.json --junit result.xml --evidence captures
  urnic conform --list

Exit status: 0 no case failed, 1 a case failed, 2 the run did not come to its end.)";

struct Options {
    std::string peer;
    std::vector<std::string> filters;
    std::string port;
    std::string agent;
    std::string device;
    std::string json;
    std::string junit;
    std::string evidence;
    std::uint32_t rate = 20'000;
    std::uint64_t seed = 0;
    bool yes = false;
    bool list = false;
};

bool is_chosen(const Case& entry, const std::vector<std::string>& filters) {
    const std::string name = case_name(entry);
    const std::string clause = entry.clause;
    return filters.empty() || std::any_of(filters.begin(), filters.end(), [&](const std::string& filter) {
               return name == filter || entry.suite == filter || clause == filter ||
                      clause.starts_with(filter + ".") || clause.starts_with(filter + " ");
           });
}

std::vector<const Case*> chosen_cases(const Options& options) {
    std::vector<const Case*> cases;
    for (const Case& entry : case_list()) {
        if (is_chosen(entry, options.filters) && why_not_live(entry).empty()) {
            cases.push_back(&entry);
        }
    }
    return cases;
}

void print_list() {
    for (const Case& entry : case_list()) {
        const std::string_view why = why_not_live(entry);
        std::printf("%s\t%s\t%s\t%s\n", case_name(entry).c_str(), entry.clause,
                    why.empty() ? "live" : std::string(why).c_str(), entry.what);
    }
}

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

std::string interface_of(const std::string& port) {
    constexpr std::string_view kKind = "af_packet:";
    if (!port.starts_with(kKind)) {
        throw SetupError("--port " + port + " is not known; it is af_packet:INTERFACE");
    }
    return port.substr(kKind.size());
}

/// Returns whether the person agrees. Nobody there to ask: they have to say --yes.
bool may_send(const Options& options) {
    if (options.yes) {
        return true;
    }
    if (::isatty(STDIN_FILENO) == 0) {
        throw SetupError(
            "nobody is there to agree; --yes says that packets that are wrong on purpose may go to " +
            options.peer);
    }
    std::printf("Packets that are wrong on purpose will go to %s over %s. Go on? [y/N] ",
                options.peer.c_str(), options.port.c_str());
    std::fflush(stdout);
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "yes";
}

class NeighbourProof final : public PathProof {
  public:
    NeighbourProof(PacketPort& port, const Ipv4Address& peer)
        : port_(port), peer_(peer), lost_(port.lost()) {}
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

Gid mapped(const Ipv4Address& address) {
    Gid gid{};
    gid[10] = gid[11] = 0xff;
    std::copy(address.begin(), address.end(), gid.begin() + 12);
    return gid;
}

class Run {
  public:
    explicit Run(const Options& options)
        : options_(options),
          peer_(peer_address(options.peer)),
          port_(interface_of(options.port), options.rate),
          path_(find_path()),
          channel_(agent_host(), agent_port(), kAgentPatienceMs),
          agent_(channel_),
          bench_(port_, agent_, path_, first_qp()),
          proof_(port_, peer_) {}

    int play(const std::vector<const Case*>& cases) {
        facts_.peer = options_.peer;
        facts_.port = options_.port;
        facts_.seed = options_.seed;
        prepare();
        std::string suite;
        try {
            for (const Case* entry : cases) {
                if (suite != entry->suite) {
                    suite = entry->suite;
                    std::printf("\n%s\n", suite.c_str());
                }
                play_case(*entry);
            }
        } catch (const BenchFailed& failure) {
            facts_.ended_by = failure.what();
        }
        return finish(cases.size());
    }

  private:
    LivePath find_path() {
        if (!port_.is_neighbour(peer_)) {
            throw SetupError(options_.peer + " is no host of the network that " + options_.port + " is on (" +
                             ipv4_text(port_.address()) +
                             "); the tester and the device have to be on one link");
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
    [[nodiscard]] std::string agent_host() const {
        const std::string host = options_.agent.substr(0, options_.agent.find(':'));
        return host.empty() ? options_.peer : host;
    }
    [[nodiscard]] std::string agent_port() const {
        const std::size_t colon = options_.agent.find(':');
        return colon == std::string::npos ? kAgentPort : options_.agent.substr(colon + 1);
    }
    [[nodiscard]] std::uint32_t first_qp() const {
        std::mt19937_64 random(options_.seed);
        return static_cast<std::uint32_t>(random() % 0x70'0000U) + 0x1000U;
    }

    void prepare() {
        agent_.hello();
        facts_.device = agent_.open(options_.device, path_.device_gid);
        const auto number = [&](const char* name, std::uint32_t fallback) {
            const auto found = facts_.device.find(name);
            return found == facts_.device.end() ? fallback
                                                : static_cast<std::uint32_t>(agent_number(found->second));
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
        facts_.device["early_packets"] = facts.is_selective ? "kept" : "discarded";
        std::printf("%s at %s (%s), firmware %s, path MTU %u, early packets %s; seed %llu\n",
                    facts_.device["name"].c_str(), options_.peer.c_str(), mac_text(path_.device_mac).c_str(),
                    facts_.device["firmware"].c_str(), facts.mtu, facts_.device["early_packets"].c_str(),
                    static_cast<unsigned long long>(options_.seed));
    }

    void play_case(const Case& entry) {
        CaseResult result = judge(entry, bench_, proof_, kCaseLimitNs);
        std::fputs(case_lines(result).c_str(), stdout);
        std::fflush(stdout);
        if (!options_.evidence.empty()) {
            write_pcapng(std::filesystem::path(options_.evidence) / (case_name(entry) + ".pcapng"), result);
        }
        result.trace.clear();
        results_.push_back(std::move(result));
    }

    [[nodiscard]] int finish(std::size_t wanted) {
        if (!options_.json.empty()) {
            write_text(options_.json, json_report(facts_, results_));
        }
        if (!options_.junit.empty()) {
            write_text(options_.junit, junit_report(facts_, results_));
        }
        std::printf("\n%s", summary_line(results_).c_str());
        if (!facts_.ended_by.empty()) {
            std::fprintf(stderr, "urnic conform: ended after %zu of %zu cases: %s\n", results_.size(), wanted,
                         facts_.ended_by.c_str());
            return kExitNotRun;
        }
        const bool has_failed = std::any_of(results_.begin(), results_.end(), [](const CaseResult& result) {
            return result.verdict == VerdictKind::kFailed;
        });
        return has_failed ? kExitFailed : 0;
    }

    const Options& options_;
    Ipv4Address peer_;
    PacketPort port_;
    LivePath path_;
    TcpAgent channel_;
    Agent agent_;
    LiveBench bench_;
    NeighbourProof proof_;
    RunFacts facts_;
    std::vector<CaseResult> results_;
};

int start(int argc, char** argv) {
    Options options;
    CommandLine app{"urnic conform: judges the RoCEv2 transport of any device, packet by packet",
                    "urnic conform"};
    app.footer(kFooter);
    app.option("PEER", options.peer, "IPv4 address of the device under test");
    app.option("CASE", options.filters,
               "suites, cases (Suite.Name) or clauses of the specification; all without");
    app.option("--port", options.port, "where frames go out and come in").type_name("af_packet:INTERFACE");
    app.option("--agent", options.agent, "where urnic-conform-agent is, if not at PEER")
        .type_name("HOST[:PORT]");
    app.option("--device", options.device, "name of the device, if several have PEER's address");
    app.option("--json", options.json, "write the results as JSON").type_name("FILE");
    app.option("--junit", options.junit, "write the results as JUnit XML").type_name("FILE");
    app.option("--evidence", options.evidence, "write the frames of each case as pcapng")
        .type_name("DIRECTORY");
    app.option("--rate", options.rate, "most frames a second")
        .in_range<std::uint32_t>(100, 1'000'000)
        .shows_default();
    app.option("--seed", options.seed, "draws the tester's QP numbers").shows_default();
    app.flag("--yes", options.yes, "do not ask before sending");
    app.flag("--list", options.list, "print the cases: name, clause, 'live' or why not, requirement");
    if (const auto ended = app.parse(argc, argv)) {
        return *ended == 0 ? 0 : kExitNotRun;
    }
    if (options.list) {
        print_list();
        return 0;
    }
    if (options.peer.empty() || options.port.empty()) {
        (void)app.refuse_without("PEER and --port, or --list,");
        return kExitNotRun;
    }
    const std::vector<const Case*> cases = chosen_cases(options);
    if (cases.empty()) {
        throw SetupError("no case has such a name, suite or clause; `urnic conform --list` prints them");
    }
    if (!options.evidence.empty()) {
        std::filesystem::create_directories(options.evidence);
    }
    (void)peer_address(options.peer);
    if (!may_send(options)) {
        return kExitNotRun;
    }
    Run run(options);
    return run.play(cases);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return start(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "urnic conform: %s\n", error.what());
        return kExitNotRun;
    }
}
