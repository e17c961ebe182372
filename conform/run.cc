#include "conform/run.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "base/address_text.h"
#include "conform/live/compare.h"
#include "conform/pages.h"
#include "conform/port/port_name.h"
#include "conform/report.h"
#include "os/setup_error.h"
#include "rnic/neighbour/neighbour_message.h"
#include "rnic/wire/packet_view.h"

namespace urnic::conform {

namespace {

constexpr TimeNs kArpPatienceNs = 3'000'000'000;
constexpr TimeNs kSaveEachNs = 1'000'000'000;

}  // namespace

const RnicProfile* profile_named(const std::string& name) {
    const RnicProfile* const profile = name.empty() ? nullptr : find_rnic_profile(name);
    if (!name.empty() && profile == nullptr) {
        throw SetupError("--profile " + name + " is not known; it is one of " + rnic_profile_names() +
                         " (docs/conform.md)");
    }
    return profile;
}

Gid peer_address(const std::string& text) {
    Gid gid{};
    if (::inet_pton(AF_INET, text.c_str(), &gid[12]) == 1) {
        gid[10] = gid[11] = 0xff;
    } else if (::inet_pton(AF_INET6, text.c_str(), gid.data()) != 1) {
        throw SetupError("'" + text +
                         "' is no IP address: PEER is that of the device under test, such as 192.0.2.10");
    }
    constexpr unsigned kFirstMulticast = 224;
    const bool is_ipv4 = wire::is_ipv4_mapped(gid);
    if (!net::is_host_address(gid) ||
        (is_ipv4 && (gid[12] >= kFirstMulticast || gid[12] == 0 || gid[12] == 127))) {
        throw SetupError(text +
                         " is multicast, broadcast or this host: the tester sends to one device alone");
    }
    return gid;
}

class Run::Neighbour final : public PathProof {
  public:
    Neighbour(PacketPort& port, const Gid& peer) : port_(port), peer_(peer), lost_(port.lost()) {}
    std::string prove() override {
        constexpr int kTimes = 10;
        const std::uint64_t lost = port_.lost();
        if (std::exchange(lost_, lost) != lost) {
            return "the port has lost frames";
        }
        for (int i = 0; i < kTimes; ++i) {
            if (!port_.resolve(peer_, kArpPatienceNs)) {
                return "the device's host does not answer ARP or neighbour discovery any more";
            }
        }
        return {};
    }

  private:
    PacketPort& port_;
    Gid peer_;
    std::uint64_t lost_;
};

Run::Run(const Options& options)
    : options_(options),
      profile_(profile_named(options.profile)),
      peer_(peer_address(options.peer)),
      port_(interface_of(options.port), options.vlan, peer_, options.rate),
      path_(find_path()),
      device_(make_device()) {
    run_.facts.label = options.label;
    run_.facts.peer = options.peer;
    run_.facts.port = options.port + (options.vlan == 0 ? "" : ", VLAN " + std::to_string(options.vlan));
    run_.facts.seed = options.seed;
    run_.facts.profile = options.profile;
    if (options.resume) {
        resume();
    }
}

std::unique_ptr<JudgedDevice> Run::make_device() {
    if (options_.cm_listen) {
        return device_with_client(options_, port_, path_, first_qp());
    }
    return options_.cm ? device_with_listener(options_, port_, path_, first_qp())
                       : device_with_agent(options_, port_, path_, first_qp());
}

LivePath Run::find_path() {
    const std::optional<Mac> mac = port_.resolve(peer_, kArpPatienceNs);
    if (!mac) {
        throw SetupError("nobody answers " +
                         std::string(wire::is_ipv4_mapped(peer_) ? "ARP" : "neighbour discovery") + " for " +
                         options_.peer + " on " + options_.port +
                         "; is the device's address right, and the cable in?");
    }
    constexpr unsigned kGroupBit = 1;
    if (((*mac)[0] & kGroupBit) != 0) {
        throw SetupError(options_.peer + " has the MAC of a group, " + mac_text(*mac) +
                         "; the tester sends to one device alone");
    }
    return {port_.mac(), *mac, port_.address(), peer_, options_.vlan, port_.second_address()};
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
    if (earlier.facts.profile != options_.profile) {
        throw SetupError(options_.json + " is of a run " +
                         (earlier.facts.profile.empty() ? "without --profile"
                                                        : "with --profile " + earlier.facts.profile) +
                         "; resume it as it was, or name another file with --json");
    }
    std::erase_if(earlier.cases,
                  [](const CaseRecord& record) { return record.verdict == VerdictKind::kInconclusive; });
    earlier_ = std::move(earlier.cases);
    std::printf("%zu cases of %s are judged already\n", earlier_.size(), options_.json.c_str());
}

void Run::prepare() {
    auto& device = run_.facts.device;
    device = device_->prepare();
    std::printf("%s at %s (%s)", device["name"].c_str(), options_.peer.c_str(),
                mac_text(path_.device_mac).c_str());
    if (device.count("firmware") != 0) {
        std::printf(", firmware %s, path MTU %s", device["firmware"].c_str(), device["mtu"].c_str());
    }
    if (device.count("early_packets") != 0) {
        std::printf(", early packets %s", device["early_packets"].c_str());
    }
    std::printf("; seed %llu\n", static_cast<unsigned long long>(options_.seed));
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
    CaseResult result = judge(entry, device_->bench(), proof, {.attempts = options_.attempts});
    if (profile_ != nullptr) {
        compare(*profile_, result.measurements);
    }
    std::filesystem::path evidence;
    if (!options_.evidence.empty()) {
        evidence = std::filesystem::path(options_.evidence) / (case_name(entry) + ".pcapng");
        write_pcapng(evidence, result.trace);
    }
    run_.cases.push_back(record_of(result, evidence));
    std::fputs(case_lines(run_.cases.back()).c_str(), stdout);
    std::fflush(stdout);
}

// What this run has judged, and what the one before had beside that.
RunRecord Run::with_earlier() const {
    RunRecord whole = run_;
    for (const CaseRecord& record : earlier_) {
        const bool is_there =
            std::any_of(run_.cases.begin(), run_.cases.end(),
                        [&](const CaseRecord& judged) { return record_name(judged) == record_name(record); });
        if (!is_there) {
            whole.cases.push_back(record);
        }
    }
    return whole;
}

// What a tester that is killed has judged is on disk.
void Run::save(bool is_last) {
    if (options_.json.empty() || (!is_last && port_.now() < saved_ + kSaveEachNs)) {
        return;
    }
    write_text(options_.json, to_json(with_earlier(), std::filesystem::path(options_.json).parent_path()));
    saved_ = port_.now();
}

int Run::finish(std::size_t wanted) {
    const std::size_t judged = run_.cases.size();
    run_ = with_earlier();
    save(true);
    if (!options_.junit.empty()) {
        write_text(options_.junit, junit_report(run_));
    }
    if (!options_.html.empty()) {
        write_text(options_.html, html_report(run_, std::filesystem::path(options_.html).parent_path()));
    }
    std::printf("\n%s%s", summary_line(run_.cases).c_str(), profile_line(run_).c_str());
    if (!run_.facts.ended_by.empty()) {
        std::fprintf(stderr, "urnic conform: ended after %zu of %zu cases: %s\n", judged, wanted,
                     run_.facts.ended_by.c_str());
        return kExitNotRun;
    }
    return count_verdicts(run_.cases)[VerdictKind::kFailed] != 0 ? kExitFailed : 0;
}

}  // namespace urnic::conform
