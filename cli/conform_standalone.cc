#include "cli/conform_standalone.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "cli/environment.h"
#include "cli/launch_error.h"
#include "cli/layout.h"
#include "cli/own_namespace.h"
#include "cli/private_daemon.h"
#include "cli/supervisor.h"
#include "cli/veth_pair.h"
#include "os/unique_fd.h"

namespace urnic::cli {

namespace {

constexpr int kEndGraceMs = 5000;
constexpr std::uint32_t kMtuBytes = 4200;  // for a path MTU of 4096
constexpr const char* kDeviceInterface = "device";
constexpr const char* kTesterInterface = "tester";
constexpr const char* kDeviceAddress = "198.18.0.1";
constexpr const char* kTesterAddress = "198.18.0.2";

/// The RNIC has an address of its own, which the kernel has not: it would answer for it.
std::string rnic_table(const std::string& profile) {
    std::string table = fmt::format(
        "[[rnic]]\nname = \"urnic0\"\nport = \"af_packet\"\ninterface = \"{}\"\nipv4 = \"{}/24\"\n",
        kDeviceInterface, kDeviceAddress);
    if (!profile.empty()) table += fmt::format("profile = \"{}\"\n", profile);
    return table + "[rnic.congestion]\ncnp = true\n";
}

/// In a child, which has the parent's one thread alone.
[[noreturn]] void execute_part(Part part, std::vector<std::string> words) {
    try {
        words.insert(words.begin(), find_part(part).string());
        std::vector<char*> pointers;
        pointers.reserve(words.size() + 1);
        for (std::string& word : words) pointers.push_back(word.data());
        pointers.push_back(nullptr);
        execv(pointers[0], pointers.data());
        dprintf(STDERR_FILENO, "urnic: cannot run %s: %s\n", pointers[0], strerror(errno));
    } catch (const std::exception& error) {
        dprintf(STDERR_FILENO, "urnic: %s\n", error.what());
    }
    _exit(kExitOwnFailure);
}

/// `in_child` does not return.
template <typename Function>
pid_t start_child(const SignalGate& gate, const char* what, const Function& in_child) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) throw LaunchError(fmt::format("cannot start {}: {}", what, std::strerror(errno)));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(kExitOwnFailure);
        gate.restore_in_child();
        in_child();
    }
    return child;
}

/// Beside the RNIC; it listens.
class Agent {
  public:
    Agent(const SignalGate& gate, const PrivateDaemon& daemon) : gate_(gate) {
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) {
            throw LaunchError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
        }
        said_ = UniqueFd(ends[0]);
        UniqueFd its_end(ends[1]);
        pid_ = start_child(gate, "urnic-conform-agent", [&] {
            dup2(its_end.get(), STDOUT_FILENO);
            set_program_environment(daemon.run_dir(), Discovery::kPreload);
            execute_part(Part::kConformAgent, {"-a", "127.0.0.1"});
        });
        its_end.reset();
        char byte = 0;
        // Its first line says that it listens.
        if (read(said_.get(), &byte, 1) != 1) {
            end_child(gate_, pid_, kEndGraceMs);
            throw LaunchError("urnic-conform-agent ended before it listened");
        }
    }
    Agent(const Agent&) = delete;
    Agent& operator=(const Agent&) = delete;
    ~Agent() { end_child(gate_, pid_, kEndGraceMs); }

  private:
    const SignalGate& gate_;
    UniqueFd said_;
    pid_t pid_ = -1;
};

}  // namespace

std::optional<ConformStandalone> conform_standalone_of(char* const* arguments) {
    constexpr std::string_view kPort = "standalone";
    std::optional<ConformStandalone> asked;
    std::vector<std::string> words;
    for (; *arguments != nullptr; ++arguments) {
        const std::string_view word = *arguments;
        std::string_view port;
        if (word == "--port" && arguments[1] != nullptr) {
            port = arguments[1];
        } else if (word.starts_with("--port=")) {
            port = word.substr(word.find('=') + 1);
        }
        if (port != kPort && !port.starts_with("standalone:")) {
            words.emplace_back(word);
            continue;
        }
        asked.emplace();
        if (port != kPort) asked->profile = port.substr(kPort.size() + 1);
        if (word == "--port") ++arguments;
    }
    const auto has = [&](std::string_view option) {
        return std::any_of(words.begin(), words.end(),
                           [&](const std::string& word) { return word.starts_with(option); });
    };
    if (!asked || has("--help") || has("--list")) return {};
    for (const char* const option : {"--cm", "--cm-listen", "--agent", "--device", "--vlan"}) {
        if (has(option)) {
            throw LaunchError(fmt::format(
                "{} does not go with --port standalone, whose RNIC has an agent: leave one of them out",
                option));
        }
    }
    asked->words = std::move(words);
    return asked;
}

void run_conform_standalone(const ConformStandalone& asked) {
    for (const Part part : {Part::kShim, Part::kProvider, Part::kConform, Part::kConformAgent})
        (void)find_part(part);
    // A program that is executed keeps capabilities as user 0 alone.
    enter_own_namespace(CLONE_NEWNET, "--port standalone", UserInside::kRoot);
    make_veth_pair({kDeviceInterface, ""}, {kTesterInterface, fmt::format("{}/24", kTesterAddress)},
                   kMtuBytes);
    std::vector<std::string> words = {
        kDeviceAddress, "--port",    fmt::format("af_packet:{}", kTesterInterface),
        "--agent",      "127.0.0.1", "--yes"};
    words.insert(words.end(), asked.words.begin(), asked.words.end());
    const SignalGate gate;
    int status = 0;
    {
        PrivateDaemon daemon(gate, {.rnics = rnic_table(asked.profile)});
        const Agent agent(gate, daemon);
        const pid_t tester = start_child(gate, "the tester", [&] { execute_part(Part::kConform, words); });
        status = supervise(gate, tester, [&](pid_t pid, int end) {
            if (pid == daemon.pid()) daemon.report_end(end);
        });
    }
    end_like(status);
}

}  // namespace urnic::cli
