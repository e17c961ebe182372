#include "cli/conform_standalone.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/daemon_client.h"
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

/// What runs beside the RNIC: urnic-conform-agent, or rping for --cm and --cm-listen.
enum class Beside { kAgent, kListener, kClient };

/// What a command line asks for.
struct ConformStandalone {
    std::string profile;             // of the RNIC; empty: its own behaviour
    std::vector<std::string> words;  // of the command line but for --port
    Beside beside = Beside::kAgent;
    std::uint16_t cm_port = 7174;  // rping's
};

constexpr int kEndGraceMs = 5000;
constexpr std::uint32_t kMtuBytes = 4200;  // for a path MTU of 4096
constexpr const char* kDeviceInterface = "device";
constexpr const char* kTesterInterface = "tester";
constexpr const char* kDeviceAddress = "198.18.0.1";
constexpr const char* kTesterAddress = "198.18.0.2";
constexpr const char* kSecondTesterAddress = "198.18.0.3";  // of cases with two peers
constexpr int kExitNotRun = 2;                              // the tester's

/// The RNIC has an address of its own, which the kernel has not: it would answer for it.
std::string rnic_table(const std::string& profile) {
    std::string table = fmt::format(
        "[[rnic]]\nname = \"urnic0\"\nport = \"af_packet\"\ninterface = \"{}\"\nipv4 = \"{}/24\"\n",
        kDeviceInterface, kDeviceAddress);
    if (!profile.empty()) table += fmt::format("profile = \"{}\"\n", profile);
    return table + "[rnic.congestion]\ncnp = true\n";
}

/// In a child, which has the parent's one thread alone. Returns when the part cannot be run.
void execute_part(Part part, std::vector<std::string> words) {
    words.insert(words.begin(), find_part(part).string());
    const Arguments arguments(std::move(words));
    execv(arguments.get()[0], arguments.get());
    dprintf(STDERR_FILENO, "urnic conform: cannot run %s: %s\n", arguments.get()[0], strerror(errno));
}

/// `in_child` returns when it could not do what it is for.
template <typename Function>
pid_t start_child(const SignalGate& gate, const char* what, const Function& in_child) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) throw LaunchError(fmt::format("cannot start {}: {}", what, std::strerror(errno)));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(kExitNotRun);
        gate.restore_in_child();
        // What the parent has is the parent's to end.
        try {
            in_child();
        } catch (const std::exception& error) {
            dprintf(STDERR_FILENO, "urnic conform: %s\n", error.what());
        }
        _exit(kExitNotRun);
    }
    return child;
}

/// In a child: a program that ends with its connection is there for the next one.
[[noreturn]] void repeat_program(std::vector<std::string> words) {
    constexpr timespec kPause{0, 50'000'000};
    // What it says of each connection that the tester ends is of no use.
    const UniqueFd nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere.get(), fd);
    const Arguments arguments(std::move(words));
    const pid_t parent = getpid();
    for (;;) {
        const pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent) execvp(arguments.get()[0], arguments.get());
            _exit(kExitNotFound);
        }
        if (child > 0) waitpid(child, nullptr, 0);
        nanosleep(&kPause, nullptr);
    }
}

bool is_on_path(const std::string& program) {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
    }
    return false;
}

bool has_listener(const std::filesystem::path& run_dir) {
    const auto status = nlohmann::json::parse(fetch_status(control_socket(run_dir)), nullptr, false);
    if (!status.is_object() || !status.contains("clients")) return false;
    const auto& clients = status["clients"];
    return std::any_of(clients.begin(), clients.end(),
                       [](const auto& client) { return client.value("cm_listeners", 0) > 0; });
}

void wait_for_listener(const std::filesystem::path& run_dir, std::uint16_t port) {
    constexpr int kPauseMs = 50;
    constexpr int kPatienceMs = 30'000;
    for (int waited_ms = 0; waited_ms < kPatienceMs; waited_ms += kPauseMs) {
        if (has_listener(run_dir)) return;
        (void)poll(nullptr, 0, kPauseMs);
    }
    throw LaunchError(
        fmt::format("rping does not listen at port {}; `urnic run --standalone -- rping -s -P -a {} -p {}` "
                    "shows what it says",
                    port, kDeviceAddress, port));
}

/// The program beside the RNIC: it is there, and listens if it is to, until this object ends.
class Companion {
  public:
    Companion(const SignalGate& gate, const PrivateDaemon& daemon, const ConformStandalone& asked)
        : Companion(gate) {
        // What is thrown here ends the program: the object is complete.
        if (asked.beside == Beside::kAgent) {
            start_agent(daemon);
        } else {
            start_rping(daemon, asked);
        }
    }
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;
    ~Companion() {
        if (pid_ > 0) end_child(gate_, pid_, kEndGraceMs);
    }

  private:
    explicit Companion(const SignalGate& gate) : gate_(gate) {}

    void start_agent(const PrivateDaemon& daemon) {
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) {
            throw LaunchError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
        }
        said_ = UniqueFd(ends[0]);
        UniqueFd its_end(ends[1]);
        pid_ = start_child(gate_, "urnic-conform-agent", [&] {
            dup2(its_end.get(), STDOUT_FILENO);
            set_program_environment(daemon.run_dir(), Discovery::kPreload);
            execute_part(Part::kConformAgent, {"-a", "127.0.0.1"});
        });
        its_end.reset();
        char byte = 0;
        // Its first line says that it listens.
        if (read(said_.get(), &byte, 1) != 1)
            throw LaunchError("urnic-conform-agent ended before it listened");
    }

    /// A librdmacm listener or client, again and again.
    void start_rping(const PrivateDaemon& daemon, const ConformStandalone& asked) {
        const bool is_listener = asked.beside == Beside::kListener;
        std::vector<std::string> words = {"rping", "-p", std::to_string(asked.cm_port)};
        const std::vector<std::string> side =
            is_listener ? std::vector<std::string>{"-s", "-P", "-a", kDeviceAddress}
                        : std::vector<std::string>{"-c", "-C", "1", "-a", kTesterAddress};
        words.insert(words.end(), side.begin(), side.end());
        pid_ = start_child(gate_, "rping", [&] {
            set_program_environment(daemon.run_dir(), Discovery::kPreload);
            repeat_program(std::move(words));
        });
        if (is_listener) wait_for_listener(daemon.run_dir(), asked.cm_port);
    }

    const SignalGate& gate_;
    UniqueFd said_;  // by the agent, whose output has an end as long as it runs
    pid_t pid_ = -1;
};

/// The value that follows `option` in the command line, in the same word or the next; empty: it is not there.
std::string option_value(const std::vector<std::string>& words, const std::string& option) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
        if (words[i] == option && i + 1 < words.size()) return words[i + 1];
    }
    return {};
}

std::uint16_t port_of(const std::string& text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || port == 0) {
        throw LaunchError(fmt::format("'{}' of --cm-port is no port: give a number from 1 to 65535", text));
    }
    return port;
}

/// Nothing: another device. Throws LaunchError when it has options that do not go with it.
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
    for (const char* const option : {"--agent", "--device", "--vlan"}) {
        if (has(option)) {
            throw LaunchError(
                fmt::format("{} does not go with --port standalone, whose RNIC has one address and a program "
                            "beside it: leave one of them out",
                            option));
        }
    }
    const auto is_there = [&](const char* word) { return std::count(words.begin(), words.end(), word) != 0; };
    if (is_there("--cm")) asked->beside = Beside::kListener;
    if (is_there("--cm-listen")) asked->beside = Beside::kClient;
    if (const std::string port = option_value(words, "--cm-port"); !port.empty())
        asked->cm_port = port_of(port);
    asked->words = std::move(words);
    return asked;
}

void find_parts(const ConformStandalone& asked) {
    const bool has_agent = asked.beside == Beside::kAgent;
    for (const Part part : {Part::kShim, Part::kProvider, Part::kConform}) (void)find_part(part);
    if (has_agent) (void)find_part(Part::kConformAgent);
    if (!has_agent && !is_on_path("rping")) {
        throw LaunchError(
            "rping is not on PATH, which --cm and --cm-listen have beside the RNIC: install rdmacm-utils "
            "(Debian) or librdmacm-utils (Fedora)");
    }
}

[[noreturn]] void judge_standalone(const ConformStandalone& asked) {
    find_parts(asked);
    // A program that is executed keeps capabilities as user 0 alone.
    enter_own_namespace(CLONE_NEWNET, "--port standalone", UserInside::kRoot);
    make_veth_pair({kDeviceInterface, {}},
                   {kTesterInterface,
                    {fmt::format("{}/24", kTesterAddress), fmt::format("{}/24", kSecondTesterAddress)}},
                   kMtuBytes);
    std::vector<std::string> words = {kDeviceAddress, "--port", fmt::format("af_packet:{}", kTesterInterface),
                                      "--yes"};
    if (asked.beside == Beside::kAgent) words.insert(words.end(), {"--agent", "127.0.0.1"});
    words.insert(words.end(), asked.words.begin(), asked.words.end());
    const SignalGate gate;
    int status = 0;
    {
        PrivateDaemon daemon(gate, {.rnics = rnic_table(asked.profile)});
        const Companion companion(gate, daemon, asked);
        const pid_t tester = start_child(gate, "the tester", [&] { execute_part(Part::kConform, words); });
        status = supervise(gate, tester, [&](pid_t pid, int end) {
            if (pid == daemon.pid()) daemon.report_end(end);
        });
    }
    end_like(status);
}

}  // namespace

void run_conform_standalone(char* const* arguments) {
    try {
        if (const auto asked = conform_standalone_of(arguments)) judge_standalone(*asked);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "urnic conform: %s\n", error.what());
        std::exit(kExitNotRun);
    }
}

}  // namespace urnic::cli
