// urnic-conform: judges the RoCEv2 transport of any device, packet by packet.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "conform/cm/cm_script.h"
#include "conform/cm/passive_script.h"
#include "conform/pages.h"
#include "conform/run.h"
#include "os/command_line.h"
#include "os/setup_error.h"

namespace {

using namespace urnic;           // NOLINT(google-build-using-namespace)
using namespace urnic::conform;  // NOLINT(google-build-using-namespace)

constexpr std::uint32_t kMaxVlanId = 4094;  // IEEE 802.1Q

constexpr const char* kFooter =
    R"(PEER is the IPv4 or IPv6 address of the device under test, on the network of --port. Beside the device runs
urnic-conform-agent. Where it cannot run, --cm judges what a librdmacm listener shows without one: rping -s -P,
an NFS server, any other; --cm-listen judges a client that connects: rping -c -a ADDRESS. The tester sends packets that are wrong on purpose: to that address alone, at most
--rate a second. Keep it away from production.
With --port standalone, without PEER, an RNIC of urnic is judged, which nobody else sees; with :PROFILE one that does
as that profile's RNICs do. It needs no right but to make a user namespace.

Examples:
  urnic conform --port standalone
  urnic conform 192.0.2.10 --port af_packet:eth1
  urnic conform 192.0.2.10 --port af_packet:eth1 ResponderGap RequesterRnr.Infinite 9.7.5
  urnic conform 192.0.2.10 --port af_packet:eth1 --yes --json result.json --html result.html --evidence captures
  urnic conform 192.0.2.10 --port af_packet:eth1 --profile connectx LiveHeaders LiveRecovery LiveCongestion
  urnic conform matrix result.json other.json --html matrix.html
  urnic conform 192.0.2.10 --port af_packet:eth1 --cm --cm-port 20049
  urnic conform 192.0.2.10 --port af_packet:eth1 --cm-listen
  urnic conform --list

Exit status: 0 no case failed, 1 a case failed, 2 the run did not come to its end.)";

bool is_chosen(const Case& entry, const std::vector<std::string>& filters) {
    const std::string name = case_name(entry);
    const std::string clause = entry.clause;
    return filters.empty() || std::any_of(filters.begin(), filters.end(), [&](const std::string& filter) {
               return name == filter || entry.suite == filter || clause == filter ||
                      clause.starts_with(filter + ".") || clause.starts_with(filter + " ");
           });
}

std::vector<Case>& all_cases(const Options& options) {
    return options.cm_listen ? active_case_list() : options.cm ? cm_case_list() : case_list();
}

std::vector<const Case*> chosen_cases(const Options& options) {
    std::vector<const Case*> cases;
    for (const Case& entry : all_cases(options)) {
        if (is_chosen(entry, options.filters) && why_not_live(entry).empty()) {
            cases.push_back(&entry);
        }
    }
    return cases;
}

void print_list(const Options& options) {
    for (const Case& entry : all_cases(options)) {
        const std::string_view why = why_not_live(entry);
        std::printf("%s\t%s\t%s\t%s\n", case_name(entry).c_str(), entry.clause,
                    why.empty() ? "live" : std::string(why).c_str(), entry.what);
    }
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

void declare(const CommandLine& app, Options& options) {
    app.footer(kFooter);
    app.option("PEER", options.peer, "IPv4 or IPv6 address of the device under test");
    app.option("CASE", options.filters,
               "suites, cases (Suite.Name) or clauses of the specification; all without");
    app.option("--port", options.port, "where frames go out and come in")
        .type_name("af_packet:INTERFACE|standalone[:PROFILE]");
    app.option("--vlan", options.vlan, "the VLAN of PEER's address, whose tag all frames get")
        .in_range<std::uint32_t>(1, kMaxVlanId)
        .type_name("ID");
    const CommandLineOption agent =
        app.option("--agent", options.agent, "where urnic-conform-agent is, if not at PEER")
            .type_name("HOST[:PORT]");
    const CommandLineOption cm =
        app.flag("--cm", options.cm, "no agent: the cases that a librdmacm listener shows").excludes(agent);
    const CommandLineOption cm_listen =
        app.flag("--cm-listen", options.cm_listen,
                 "no agent: the tester listens, and a librdmacm client beside the device connects to it")
            .excludes(agent)
            .excludes(cm);
    app.option("--cm-port", options.cm_port,
               "where is listened, a port of RDMA_PS_TCP; of --cm and --cm-listen")
        .in_range<std::uint32_t>(1, 65535)
        .shows_default();
    app.option("--device", options.device, "name of the device, if several have PEER's address");
    app.option("--label", options.label, "what reports call the device").type_name("TEXT");
    app.option("--profile", options.profile,
               "compare the device's choices with those of another RNIC: " + rnic_profile_names())
        .type_name("NAME")
        .excludes(cm)
        .excludes(cm_listen);
    const CommandLineOption json =
        app.option("--json", options.json, "write the results as JSON, while they come").type_name("FILE");
    app.flag("--resume", options.resume, "go on where the run ended whose results are in that file")
        .needs(json);
    app.option("--junit", options.junit, "write the results as JUnit XML").type_name("FILE");
    app.option("--html", options.html, "write the results as one self-contained page").type_name("FILE");
    app.option("--evidence", options.evidence, "write the frames of each case as pcapng")
        .type_name("DIRECTORY");
    app.option("--rate", options.rate, "most frames a second")
        .in_range<std::uint32_t>(100, 1'000'000)
        .shows_default();
    app.option("--attempts", options.attempts, "how often a case is played while it fails")
        .in_range<std::uint32_t>(1, 10)
        .shows_default();
    app.option("--seed", options.seed, "draws the tester's QP numbers").shows_default();
    app.flag("--yes", options.yes, "do not ask before sending");
    app.flag("--list", options.list, "print the cases: name, clause, 'live' or why not, requirement");
}

int start(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "matrix") {
        return matrix_command(argc - 1, argv + 1);
    }
    Options options;
    const CommandLine app{"urnic conform: judges the RoCEv2 transport of any device, packet by packet",
                          "urnic conform"};
    declare(app, options);
    if (const auto ended = app.parse(argc, argv)) {
        return *ended == 0 ? 0 : kExitNotRun;
    }
    // Measurements last.
    std::stable_partition(case_list().begin(), case_list().end(), [](const Case& entry) {
        return !std::string_view(entry.suite).starts_with("Live");
    });
    if (options.list) {
        print_list(options);
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
    (void)profile_named(options.profile);
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
