// urnicd: the daemon. See --help.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include "daemon/config/config.h"
#include "daemon/control/fault_json.h"
#include "daemon/daemon.h"
#include "os/command_line.h"
#include "os/confinement.h"
#include "os/log.h"
#include "os/monotonic_clock.h"
#include "os/unique_fd.h"
#include "rnic/wire/crc/crc32.h"

namespace {

using namespace urnic;
using namespace urnic::daemon;

constexpr const char* kFooter = R"(
Serves emulated RNICs to ibverbs programs of this host, in the foreground, until SIGTERM or SIGINT. Programs see
the RNICs when they are started by `urnic run`. Messages go to stderr; exit status 0 after a clean end, 1 when the
daemon cannot start or its configuration is wrong.

The configuration file is TOML. Every key, with its default:

  [daemon]
  run_dir = "/run/urnic"        # control.sock and what programs see of /sys and /dev
  socket_mode = "0660"          # who may connect
  socket_group = ""             # group of the socket; left out: the daemon's own
  user = "urnic"                # that urnicd becomes once its ports are open; left out: it stays who it is
  seccomp = true                # threads make the system calls that they need, and no others; left out: where the
                                # kernel can
  workers = [0]                 # a worker for each of these CPUs; or a count, and the scheduler chooses
  dedicated_cores = false       # true: nothing else runs on the CPUs of 'workers' (a list)
  hugepages = false             # packet memory from huge pages; left out: true where a port is "pci", else false
  telemetry = false             # true: RUNTIME_DIRECTORY=RUN_DIR dpdk-telemetry.py -f urnic reads DPDK's state
  eal_args = []                 # further arguments for DPDK's EAL
  copied_memory = "own"         # whose memory that the kernel has to copy is registered: root's and the daemon's user's, or "all"
                                # users', of whom each can then stop the workers

  [daemon.limits]               # of each client process
  max_qps = 16384
  max_cqs = 16384
  max_mrs = 131072
  max_pds = 32768
  max_ahs = 131072
  max_mws = 131072
  max_dms = 1024
  max_mcast_attachments = 65536
  max_srqs = 16384
  max_xrcds = 1024
  max_contexts = 16384
  max_channels = 1024
  max_cm_channels = 4096
  max_cm_ids = 32768
  max_registered_bytes = 4398046511104
  max_ring_bytes = 8589934592
  max_device_memory_bytes = 67108864

  [daemon.limits.per_uid]       # of all processes of one user together, but of root and the daemon's own user;
                                # by default a quarter of what there is
  max_connections = 256
  max_descriptors = 262144      # of the daemon's, for them; left out: a quarter of its limit on open files
  max_contexts = 4096
  max_channels = 4096
  max_qps = 4096
  max_cqs = 4096
  max_srqs = 4096
  max_xrcds = 4096
  max_mrs = 16384
  max_mws = 16384
  max_dms = 1024
  max_pds = 8192
  max_ahs = 16384
  max_mcast_groups = 1024
  max_mcast_attachments = 16384
  max_cm_channels = 4096
  max_cm_ids = 8192
  max_cm_groups = 16384
  max_subnet_groups = 256       # of InfiniBand, where a subnet has 1024: those that ports are in for his ids
  max_cm_ports = 7058
  max_registered_bytes = 68719476736  # left out: the machine's memory
  max_ring_bytes = 17179869184  # of queues, as many as there have been; left out: a quarter of the machine's memory
  max_device_memory_bytes = 268435456

  [[rnic]]                      # one for each RNIC
  name = "urnic0"
  port = "fabric"               # "fabric": an in-process wire; "af_packet" or "af_xdp": an interface of the kernel;
                                # "memif": another daemon on this host; "pci": a NIC; "vdev": a DPDK virtual device
  fabric = "lab"                # with port = "fabric": RNICs that name the same fabric reach each other
  device = "0000:01:00.0"       # with "pci": its address; with "vdev": for example "net_af_packet0,iface=eth1"
  interface = "eth0"            # with "af_packet" and "af_xdp"
  netns = "blue"                # the interface's network namespace (ip netns, or a path); left out: the daemon's
  segmentation_offload = "auto"  # with "af_packet": frames leave together on a veth; "off": one by one
  socket = "/run/urnic/m.sock"  # with "memif": where the two ends find each other
  role = "server"               # with "memif": one end is "server", the other "client"
  id = 0                        # with "memif": both ends of a link have the same
  mac = "02:00:c6:12:00:01"     # left out: the NIC's or interface's own; made up on a fabric, random on memif
  ipv4 = "198.18.0.1/24"        # GID 1; GID 0 is the link-local address made from the MAC
  ipv6 = "fd00::1/64"           # the next GID
  mtu = 4096                    # largest path MTU: 256, 512, 1024, 2048 or 4096; left out: 1024 for pci and vdev,
                                # what the interface's MTU allows for af_packet and af_xdp
  gateway = "198.18.0.254"      # of RNICs with addresses of their own; routes = ["10.1.0.0/16 via 198.18.0.253"]
  ecn = false                   # true: packets may be marked by switches; udp_checksum = true: they carry one
  multicast_reports = true      # groups are reported by IGMP and MLD on af_packet, af_xdp and pci
  recovery = "selective"        # after a loss: resend what is missing, or everything since: "go-back-n"
  offload = "auto"              # packets within a worker of a fabric need not be frames; "off": all are
  profile = "strict"            # the ways of other RNICs: "connectx", "e810", "rxe" as well; keys beside it go before
  mig_req = true                # MigReq of all packets but CNPs
  udp_source_port = "flow"      # of connections; "linux": as Linux makes it of the QP numbers
  ack_coalescing = "burst"      # one ACK answers the requests of a burst; "none": each that asks has its own
  timer_tick_us = 0             # ACK timeouts and RNR waits end at multiples of this; 0: when they are over
  failed_invalidation = "ack"   # to a SEND with Invalidate of a key that may not be invalidated; "nak": refuse it

  [[rnic.vlan]]                 # addresses on a VLAN, behind their [[rnic]]: packets from and to them are tagged
  id = 7                        # 1 to 4094; gateway and routes as above
  ipv4 = "198.18.7.1/24"

  [rnic.congestion]             # behind its [[rnic]]; these and the parameters that urnic cc show prints
  algorithm = "none"            # "none", "fixed" (rate_mbps), "dcqcn" or "timely"
  profile = "paper"             # "paper", "connectx", "ns3-hpcc" or "ns3-bobzhuyb"
  line_rate_mbps = 100000       # what QPs begin with and never pass
  burst_bytes = 65536           # that a QP which was silent sends at once
  cnp = true                    # answer CE marks; and min_time_between_cnps_us, cnp_scope, cnp_dscp, cnp_priority

  [rnic.pfc]                    # behind its [[rnic]]; priority flow control (docs/congestion.md)
  rx_priorities = []            # priorities that stop when the other end of the link pauses them
  link_mbps = 10000             # rate of the link: a pause is counted in times of 512 bits
  watchdog_ms = 200             # a longer pause is ended; 0: none is
  tx_priorities = []            # priorities that are paused at the other end when frames pile up here
  xoff_frames = 512             # the pause begins when more frames than this wait for a worker
  xon_frames = 64               # the pause ends when no more frames than this wait for it

  [[neighbour]]                 # who else is on the network of a pci or vdev port
  ip = "198.18.0.2"
  mac = "02:00:c6:12:00:02"

  [[network]]                   # none by default; switches between the RNICs of one fabric (docs/congestion.md)
  fabric = "lab"                # theirs, two or more
  topology = "star"             # or "dumbbell", "parking-lot" (switches), "leaf-spine" (leaves, spines), with
                                # trunk_mbps and trunk_delay_us between switches
  link_mbps = 1000              # of each RNIC's link, and its delay:
  delay_us = 1
  buffer_bytes = 1000000        # of each switch; what it does not hold is dropped
  weights = [0, 0, 0, 0, 0, 0, 0, 0]  # of the priorities that share what strict ones leave; 0: strict
  pfc = []                      # priorities that are not dropped but paused; with xoff_bytes, xon_bytes,
                                # headroom_bytes and watchdog_ms
  ecn_kmin_bytes = 0            # queues up to here mark nothing; from kmax on everything, just below it the part pmax
  ecn_kmax_bytes = 0            # 0: nothing is marked
  ecn_pmax = 1

  [[fault]]                     # none by default; one for each fault to inject, with the keys of urnic fault
  type = "drop"                 # "drop", "corrupt", "ecn", "delay", "duplicate" or "reorder"
  direction = "tx"              # "tx", "rx" or "both"; and device, qpn, psn, opcode, iter, count
  probability = 0.01            # with seed; and offset, delay-us, packets: see urnic fault add --help)";

/// Blocks the signals that end the daemon, in this thread and all that it makes, and gives a descriptor that
/// becomes readable for them.
UniqueFd take_signals() {
    sigset_t signals{};
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    // A completion channel or a client's socket whose reader has closed it.
    (void)std::signal(SIGPIPE, SIG_IGN);
    return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

struct Arguments {
    std::string config_file;
    bool check = false;
    bool verbose = false;
    bool standalone = false;
    std::string link_layer = "ethernet";
    std::string run_dir;
    std::string faults_file;
    int ready_fd = -1;
};

/// Whether a security module has refused something is not in the errno.
void print_confinement_hint(const char* error) noexcept {
    try {
        const std::string hint = confinement_hint(confinement_label(), error);
        if (!hint.empty()) {
            (void)std::fprintf(stderr, "urnicd: %s\n", hint.c_str());
        }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the error has been told
    }
}

/// Returns whether the file of --faults is correct; says what is wrong with it otherwise.
bool add_faults(const std::string& file, Config& config) {
    if (file.empty()) {
        return true;
    }
    auto result = read_faults(file);
    if (const auto* error = std::get_if<FaultError>(&result)) {
        log_error("{}", error->message);
        print_confinement_hint(error->message.c_str());
        return false;
    }
    const auto& rules = std::get<std::vector<urnic::fault::Rule>>(result);
    config.faults.insert(config.faults.end(), rules.begin(), rules.end());
    return true;
}

int run(const Arguments& arguments) {
    Config config;
    if (arguments.standalone) {
        config = standalone_config(arguments.run_dir, arguments.link_layer == "infiniband");
        // The RNICs of a program end with it, however it ends.
        (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
    } else {
        auto result = read_config(arguments.config_file);
        if (const auto* error = std::get_if<ConfigError>(&result)) {
            log_error("{}", error->message);
            print_confinement_hint(error->message.c_str());
            return 1;
        }
        config = std::get<Config>(std::move(result));
        for (const std::string& warning : config.warnings) {
            log_warning("{}", warning);
        }
    }
    if (!add_faults(arguments.faults_file, config)) {
        return 1;
    }
    if (arguments.check) {
        fmt::print("{}: correct, {} RNIC{}\n", arguments.config_file, config.rnics.size(),
                   config.rnics.size() == 1 ? "" : "s");
        return 0;
    }
    const UniqueFd signals = take_signals();
    if (!signals) {
        throw std::system_error(errno, std::generic_category(), "signalfd");
    }
    urnic::wire::choose_crc32_variant(clock_now);
    if (arguments.verbose) {
        log_info("CRC by {}", urnic::wire::crc32_variant());
    }
    const DaemonOptions options{arguments.standalone, arguments.verbose, arguments.ready_fd};
    const std::array stop_fds{signals.get()};
    serve(config, options, stop_fds);
    return 0;
}

void define_options(const Command& app, Arguments& arguments) {
    app.footer(kFooter);
    app.prints_version("urnicd " URNIC_VERSION);
    const auto config =
        app.option("--config", arguments.config_file, "Configuration file (TOML)").type_name("FILE.toml");
    app.flag("--check", arguments.check, "Only check the configuration file and tell what is wrong with it")
        .needs(config);
    app.option("--faults", arguments.faults_file,
               "Faults to inject from the start, besides those of the configuration (JSON, see urnic fault)")
        .type_name("FILE.json");
    app.flag("--verbose", arguments.verbose, "Also show DPDK's log and who comes and goes");
    const auto run_dir =
        app.option("--run-dir", arguments.run_dir, "Run directory of --standalone").type_name("DIR");
    const auto standalone =
        app.flag("--standalone", arguments.standalone,
                 "Two RNICs on an in-process wire, urnic0 198.18.0.1/24 and urnic1 198.18.0.2/24, "
                 "without root, hugepages or NIC; ends with the process that started it")
            .needs(run_dir)
            .excludes(config);
    run_dir.needs(standalone);
    app.option("--link-layer", arguments.link_layer,
               "Of the RNICs of --standalone; of infiniband: with LIDs 1 and 2, without IP addresses")
        .type_name("LAYER")
        .one_of({"ethernet", "infiniband"})
        .needs(standalone);
    app.option("--ready-fd", arguments.ready_fd, "Descriptor that gets one byte when the RNICs are served")
        .type_name("N")
        .non_negative();
}

int parse_and_run(int argc, char** argv) {
    Arguments arguments;
    CommandLine app("urnicd: the daemon of the urnic software RDMA NIC", "urnicd");
    define_options(app, arguments);
    if (const auto status = app.parse(argc, argv)) return *status;
    if (!arguments.standalone && arguments.config_file.empty()) {
        return app.refuse_without("--config FILE.toml (or --standalone --run-dir DIR)");
    }
    return run(arguments);
}

}  // namespace

int main(int argc, char** argv) {
    // glibc keeps small free blocks apart and joins all of them in one call of free() later: 3 ms of the
    // control thread after the end of a client with 28,000 objects, 0.1 ms without that.
    (void)::mallopt(M_MXFAST, 0);
    try {
        return parse_and_run(argc, argv);
    } catch (const std::exception& error) {
        // Not through fmt, which may throw itself.
        (void)std::fprintf(stderr, "urnicd: error: %s\n", error.what());
        print_confinement_hint(error.what());
        return 1;
    }
}
