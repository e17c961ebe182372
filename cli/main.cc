// urnic: runs programs on emulated RNICs and shows what a daemon serves.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string_view>

#include <fmt/core.h>

#include "cli/become.h"
#include "cli/capture_command.h"
#include "cli/cc_command.h"
#include "cli/completion_command.h"
#include "cli/conform_standalone.h"
#include "cli/daemon_client.h"
#include "cli/doctor_command.h"
#include "cli/extcap_command.h"
#include "cli/fault_command.h"
#include "cli/launch_error.h"
#include "cli/opcode_command.h"
#include "cli/port_command.h"
#include "cli/reach_command.h"
#include "cli/run.h"
#include "cli/status_command.h"
#include "cli/top_command.h"
#include "cli/trace_command.h"
#include "cli/view_command.h"
#include "os/command_line.h"

namespace {

namespace launcher = urnic::cli;

constexpr const char* kRunFooter =
    R"(By default CMD uses the RNICs of the running urnicd. With --standalone it gets a daemon of its own with
two RNICs joined by a switch: urnic0 (198.18.0.1/24) and urnic1 (198.18.0.2/24). That needs no root, no huge
pages and no NIC; the daemon ends with CMD. GID 0 is the link-local RoCE v2 address, GID 1 the
IPv4-mapped one. With --link-layer infiniband the two are ports of an InfiniBand subnet, Active, with
LIDs 1 and 2 and without IP addresses.

Examples:
  urnic run --standalone -- ibv_devinfo -v
  urnic run --standalone -- sh -c 'ib_write_bw -d urnic0 & sleep 1; ib_write_bw -d urnic1 127.0.0.1'
  urnic run --standalone --faults faults.json -- ib_write_bw ...    with lossy links, see urnic fault
  urnic run --standalone --link-layer infiniband -- sh -c 'ibv_rc_pingpong & sleep 1; ibv_rc_pingpong localhost'
  urnic run --standalone -- bash        a shell whose commands see the RNICs
  urnic run -- ibv_rc_pingpong -d urnic0 -g 1

Environment given to CMD (what was set before is kept behind it):
  LD_PRELOAD      the discovery shim, which shows the RNICs in /sys/class/infiniband* and /dev/infiniband
  RDMAV_DRIVERS   the verbs provider, for libibverbs
  URNIC_RUN_DIR   the daemon's run directory
  ASAN_OPTIONS    verify_asan_link_order=0, so that programs built with AddressSanitizer start
  VALGRIND_OPTS   --suppressions=FILE: what memcheck must not take for an error of the program

Exit status: CMD's; a CMD killed by a signal ends urnic run by the same signal. 125 when urnic itself
fails, 126 when CMD cannot be executed, 127 when it is not found.

Statically linked programs, and programs that clear their environment, are not reached by LD_PRELOAD: --mount
gives CMD a mount namespace instead (and a user namespace, unless it has CAP_SYS_ADMIN), in which the RNICs'
files lie at their places:
  urnic run --mount -- prometheus-node-exporter --collector.infiniband)";

constexpr const char* kFooter = R"(Every command has its own --help. The daemon is urnicd(8).)";

constexpr const char* kRunUsage =
    "Usage: urnic run [--mount] [--standalone [--keep] [--link-layer LAYER | --faults FILE.json] | --socket "
    "PATH] [--] CMD "
    "ARGS...\n";

/// Everything after the first "--" belongs to the command, whatever it looks like.
std::vector<std::string> cut_command(int& argc, char** argv) {
    char** end = argv + argc;
    char** mark = std::find_if(argv, end, [](const char* word) { return std::string(word) == "--"; });
    if (mark == end) return {};
    argc = static_cast<int>(mark - argv);
    return {mark + 1, end};
}

/// Commands that are programs of their own.
struct Program {
    const char* name;
    const char* help;
    launcher::Part part;
};
constexpr Program kPrograms[] = {
    {"decode", "Prints the packets of capture files (pcap, pcapng, ERF).", launcher::Part::kDecoder},
    {"experiment", "Runs QPs over networks of switches in virtual time.", launcher::Part::kExperiment},
    {"ipoib", "IP over InfiniBand: a TAP device whose frames travel as UD datagrams.",
     launcher::Part::kIpoib},
    {"conform", "Judges the RoCEv2 transport of any device, packet by packet.", launcher::Part::kConform},
};

/// Does not return if `name` is that of a program.
void become_program(std::string_view name, char** arguments) {
    if (name == "conform") launcher::run_conform_standalone(arguments);
    for (const Program& program : kPrograms) {
        if (name == program.name) launcher::become(program.part, arguments);
    }
}

/// Commands that have a class each.
class Tools {
  public:
    explicit Tools(const urnic::Command& app)
        : fault_(app),
          port_(app),
          cc_(app),
          opcode_(app),
          capture_(app),
          extcap_(app),
          trace_(app),
          view_(app),
          status_(app),
          top_(app),
          reach_(app),
          completion_(app) {}

    /// Returns whether the command line named one of them.
    bool run() {
        return run(fault_) || run(port_) || run(cc_) || run(opcode_) || run(capture_) || run(extcap_) ||
               run(trace_) || run(view_) || run(status_) || run(top_) || run(reach_) || run(completion_);
    }

  private:
    template <typename Tool>
    static bool run(Tool& tool) {
        if (!tool.parsed()) return false;
        tool.run();
        return true;
    }

    launcher::FaultCommand fault_;
    launcher::PortCommand port_;
    launcher::CcCommand cc_;
    launcher::OpcodeCommand opcode_;
    launcher::CaptureCommand capture_;
    launcher::ExtcapCommand extcap_;
    launcher::TraceCommand trace_;
    launcher::ViewCommand view_;
    launcher::StatusCommand status_;
    launcher::TopCommand top_;
    launcher::ReachCommand reach_;
    launcher::CompletionCommand completion_;
};

int start(int argc, char** argv) {
    urnic::CommandLine app{"urnic: unmodified ibverbs programs on emulated RoCE v2 RNICs", "urnic"};
    app.prints_version(std::string("urnic ") + URNIC_VERSION);
    app.requires_command();
    app.footer(kFooter);

    launcher::RunOptions options;
    std::string socket = launcher::default_socket().string();
    const urnic::Command run =
        app.command("run", "Runs CMD so that it, and every program it starts, sees the emulated RNICs.");
    run.footer(kRunFooter);
    run.usage(kRunUsage);
    const auto standalone = run.flag("--standalone", options.standalone, "start a private daemon for CMD");
    run.option("--faults", options.faults, "inject these faults, see urnic fault")
        .type_name("FILE.json")
        .needs(standalone);
    run.option("--link-layer", options.link_layer,
               "of the private daemon's RNICs; of infiniband: LIDs 1 and 2")
        .type_name("LAYER")
        .one_of({"ethernet", "infiniband"})
        .shows_default()
        .needs(standalone);
    run.flag("--keep", options.keep, "keep the private daemon's run directory, with its log")
        .needs(standalone);
    run.flag("--mount", options.mount,
             "show CMD the RNICs in /sys and /dev by mounts of its own, in place of LD_PRELOAD");
    run.option("--socket", socket, "control socket of the daemon, or the directory it is in")
        .type_name("PATH")
        .shows_default()
        .excludes(standalone);
    run.takes_foreign_words();

    Tools tools(app);
    const launcher::DoctorCommand doctor(app);

    // Only for the list of commands: their command lines are those of other programs.
    for (const Program& program : kPrograms) app.command(program.name, program.help);
    become_program(argc > 1 ? argv[1] : "", argv + 2);

    options.command = cut_command(argc, argv);
    if (const auto ended = app.parse(argc, argv)) return *ended == 0 ? 0 : launcher::kExitOwnFailure;
    if (options.command.empty()) options.command = run.remaining();
    if (run.parsed() && options.command.empty()) {
        (void)app.refuse_without("CMD: urnic run needs a command to run; it");
        return launcher::kExitOwnFailure;
    }
    if (tools.run()) return 0;
    if (doctor.parsed()) return doctor.run(URNIC_VERSION);
    options.socket = socket;
    launcher::run(options);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return start(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "urnic: %s\n", error.what());
        return launcher::kExitOwnFailure;
    }
}
