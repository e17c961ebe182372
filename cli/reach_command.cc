#include "cli/reach_command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/cdi.h"
#include "cli/daemon_client.h"
#include "cli/launch_error.h"
#include "cli/layout.h"
#include "cli/mount_tree.h"
#include "cli/systemd_dropin.h"
#include "os/unique_fd.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

constexpr const char* kEnterFooter =
    R"(Lays the RNICs' files over /sys/class/infiniband*, /sys/class/misc/rdma_cm and /dev/infiniband in the mount
namespace of a process that runs already: a container, or a service that systemd gives its own (PrivateTmp=,
ProtectSystem= and others do). All processes in that namespace see them from then on, and nobody else. A process
that has the namespace of the machine is refused: see urnic systemd-dropin and urnic run --mount.

libibverbs finds the provider there if the package libibverbs-urnic is installed there, and the daemon if its run
directory is /run/urnic there. Needs root, or the process's own user where that user made its user namespace.

Examples:
  urnic enter 4711
  urnic enter prometheus-node-exporter)";

constexpr const char* kDropinFooter =
    R"(Prints a drop-in for systemd that shows the RNICs to a service, with BindPaths= and Environment=.

Example:
  urnic systemd-dropin prometheus-node-exporter |
      sudo install -D /dev/stdin /etc/systemd/system/prometheus-node-exporter.service.d/urnic.conf
  sudo systemctl daemon-reload && sudo systemctl restart prometheus-node-exporter)";

constexpr const char* kCdiFooter =
    R"(Prints a specification of the Container Device Interface for the RNICs of the running daemon. Containers see the
RNICs that they are given; that is no protection, as every process that may use the daemon's socket may use all
of them. Print it again when the configuration's RNICs have changed; start containers again after the daemon.

Examples:
  urnic cdi | sudo install -D -m 644 /dev/stdin /etc/cdi/urnic.json
  podman run --device urnic.io/rnic=urnic0 IMAGE ibv_devinfo
  podman run --device urnic.io/rnic=all IMAGE ibv_devinfo)";

/// What a program prints. Throws LaunchError if it cannot be run or fails.
std::string output_of(const std::vector<std::string>& words) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw LaunchError(fmt::format("pipe: {}", std::strerror(errno)));
    const UniqueFd out(ends[0]);
    UniqueFd in(ends[1]);
    const Arguments arguments(words);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, words[0].c_str(), &actions, nullptr, arguments.get(), environ);
    posix_spawn_file_actions_destroy(&actions);
    in.reset();
    if (error != 0) throw LaunchError(fmt::format("cannot run {}: {}", words[0], std::strerror(error)));
    std::string text;
    char part[256];
    for (ssize_t count = 0; (count = read(out.get(), part, sizeof(part))) > 0;) {
        text.append(part, static_cast<std::size_t>(count));
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        throw LaunchError(fmt::format("{} failed", words[0]));
    }
    return text;
}

/// The whole text as a number of a process; 0 if it is none.
pid_t process_number(std::string_view text) {
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    return error == std::errc() && end == text.data() + text.size() && pid > 0 ? pid : 0;
}

pid_t main_process_of(const std::string& service) {
    const std::string unit = unit_name(service);
    std::string said;
    try {
        said = output_of({"systemctl", "show", "--property=MainPID", "--value", "--", unit});
    } catch (const LaunchError& error) {
        throw LaunchError(fmt::format("cannot ask systemd for {}: {}; give the ID of its process instead",
                                      unit, error.what()));
    }
    const pid_t pid = process_number(said);
    if (pid == 0) throw LaunchError(fmt::format("{0} does not run: systemctl start {0}", unit));
    return pid;
}

/// The group whose members may use the socket, if not everybody may.
std::string socket_group(const fs::path& socket) {
    struct stat found {};
    if (stat(socket.c_str(), &found) != 0 || (found.st_mode & S_IWOTH) != 0 || found.st_gid == 0) return {};
    const group* entry = getgrgid(found.st_gid);  // NOLINT(concurrency-mt-unsafe): one thread
    return entry == nullptr ? std::to_string(found.st_gid) : entry->gr_name;
}

std::vector<std::string> class_entries() {
    std::vector<std::string> names;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator("/sys/class", missing)) {
        if (entry.path().filename() != "misc") names.push_back(entry.path().filename().string());
    }
    for (const auto& entry : fs::directory_iterator("/sys/class/misc", missing)) {
        names.push_back("misc/" + entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

ReachCommand::ReachCommand(const Command& app) : socket_(default_socket().string()) {
    enter_ = app.command("enter", "Shows the RNICs to a process that runs already, in its mount namespace.");
    enter_.footer(kEnterFooter);
    enter_.option("TARGET", target_, "ID of a process, or name of a service")
        .type_name("PID|SERVICE")
        .required();
    dropin_ = app.command("systemd-dropin", "Prints a drop-in that shows the RNICs to a service of systemd.");
    dropin_.footer(kDropinFooter);
    dropin_.option("SERVICE", service_, "name of the service, for example nginx").required();
    cdi_ = app.command("cdi", "Prints a CDI specification, for RNICs in containers.");
    cdi_.footer(kCdiFooter);
    for (const Command& command : {enter_, dropin_, cdi_}) {
        command.option("--socket", socket_, "control socket of the daemon, or the directory it is in")
            .type_name("PATH")
            .shows_default();
    }
}

void ReachCommand::run() const {
    if (enter_.parsed()) return enter();
    if (dropin_.parsed()) return print_dropin();
    print_cdi();
}

void ReachCommand::enter() const {
    const fs::path run_dir = control_socket(socket_).parent_path();
    const pid_t number = process_number(target_);
    const pid_t pid = number != 0 ? number : main_process_of(target_);
    const bool is_new = mount_rdma_tree_of(pid, run_dir);
    fmt::print("process {} {} the RNICs of {}\n", pid, is_new ? "now sees" : "saw already", run_dir.string());
}

void ReachCommand::print_dropin() const {
    const fs::path socket = control_socket(socket_);
    const Placements placements(socket.parent_path());
    const std::string provider = find_part(Part::kProvider).string();
    const DropIn dropin{service_, socket.parent_path(), provider.substr(0, provider.rfind("-rdmav34.so")),
                        socket_group(socket)};
    fmt::print("{}", systemd_dropin(dropin, placements.directories(), class_entries()));
}

void ReachCommand::print_cdi() const {
    fmt::print("{}", cdi_specification(control_socket(socket_).parent_path(),
                                       {find_part(Part::kShim), find_part(Part::kProvider)}));
}

}  // namespace urnic::cli
