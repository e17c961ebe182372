// urnic-ipoib: an IPoIB link over a UD QP of any RDMA device, as a TAP device.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include <sys/signalfd.h>

#include "ulp/ipoib/service.h"
#include "ulp/ipoib/tap/setup_error.h"

namespace {

using urnic::ipoib::ServiceConfig;

constexpr const char* kFooter = R"(All members of a link have one Q_Key, P_Key, MTU and scope.
On an InfiniBand port Q_Key, MTU and traffic are those of the broadcast group, which the
subnet administrator has.
The link ends with this program; SIGUSR1 prints its counters.

Examples:
  urnic run -- urnic ipoib -d urnic0 -i ib0 &
  ip address add 10.9.0.1/24 dev ib0
With packets of up to 65,520 octets to peers that do the same:
  urnic run -- urnic ipoib -d urnic0 --mode connected &
As a user, in namespaces of one's own:
  unshare -Urn sh -c 'urnic run -- urnic ipoib -d urnic0 & ...'

Exit status: 0 after SIGINT or SIGTERM, 1 when the link cannot be made.)";

/// A descriptor that is readable when that signal has come.
int signal_descriptor(std::initializer_list<int> signals) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : signals) {
        sigaddset(&set, signal);
    }
    sigprocmask(SIG_BLOCK, &set, nullptr);
    const int descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor < 0) {
        throw urnic::ipoib::errno_error("signalfd", "");
    }
    return descriptor;
}

void add_options(CLI::App& app, ServiceConfig& config) {
    app.add_option("-d,--device", config.port.device, "RDMA device (default: the first)");
    app.add_option("-p,--port", config.port.port, "Port of the device")
        ->capture_default_str()
        ->check(CLI::Range(1, 255));
    app.add_option("-i,--interface", config.interface, "Name of the TAP device; %d is replaced by a number")
        ->capture_default_str();
    app.add_option("-g,--gid-index", config.port.gid_index,
                   "Index of an IPv6 GID (default: on RoCE the first link-local one)")
        ->check(CLI::Range(0, 255));
    app.add_option("-m,--mtu", config.mtu, "RoCE: octets of an IP packet, path MTU - 4")
        ->default_str("2044")
        ->check(CLI::Range(252, static_cast<int>(urnic::ipoib::kLargestUdMtu)));
    app.add_option("--qkey", config.qkey, "RoCE: Q_Key of the link")->default_str("0x80001b0b");
    app.add_option("--pkey-index", config.port.pkey_index, "Index of the link's P_Key")
        ->capture_default_str();
    app.add_option("--scope", config.scope, "Scope of the multicast GIDs (RFC 4391, 4.1)")
        ->capture_default_str()
        ->check(CLI::Range(1, 14));
    app.add_option("--traffic-class", config.traffic.traffic_class, "RoCE: traffic class of all datagrams")
        ->capture_default_str();
    app.add_option("--hop-limit", config.traffic.hop_limit, "RoCE: hop limit of all datagrams")
        ->capture_default_str();
    app.add_option("--service-level", config.traffic.service_level, "RoCE: service level of all datagrams")
        ->capture_default_str()
        ->check(CLI::Range(0, 15));
    app.add_option("--mode", config.is_connected,
                   "datagram, or connected: RC connections beside it (RFC 4755)")
        ->default_str("datagram")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, bool>{{"datagram", false}, {"connected", true}}));
    app.add_option("--connected-mtu", config.connected_mtu, "Octets of an IP packet by a connection")
        ->capture_default_str()
        ->check(CLI::Range(2044U, urnic::ipoib::kConnectedMtu));
    app.add_option("--connected-depth", config.connected_depth, "Receives, and send slots, of 64 KiB each")
        ->capture_default_str()
        ->check(CLI::Range(16, 4096));
    app.add_option("--connections", config.max_connections, "Connections at once")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096));
    app.add_option("--idle", config.idle_seconds, "Seconds after which an unused connection is closed")
        ->capture_default_str()
        ->check(CLI::Range(1, 86400));
    app.add_option("--depth", config.depth, "Receives, and send slots")
        ->capture_default_str()
        ->check(CLI::Range(16, 16384));
}

int run(int argc, char** argv) {
    ServiceConfig config;
    CLI::App app(
        "IP over InfiniBand (RFC 4391) on an RDMA device: makes a TAP device whose frames travel as UD "
        "datagrams",
        "urnic ipoib");
    app.footer(kFooter);
    add_options(app, config);
    CLI11_PARSE(app, argc, argv);
    const int stop = signal_descriptor({SIGINT, SIGTERM});
    const int report = signal_descriptor({SIGUSR1});
    urnic::ipoib::Service service(config);
    std::printf("%s\n", service.description().c_str());
    std::fflush(stdout);
    service.run(stop, report);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "urnic ipoib: %s\n", error.what());
    } catch (...) {
        std::fputs("urnic ipoib: an error without a message\n", stderr);
    }
    return 1;
}
