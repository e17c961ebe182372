#include "cli/doctor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "cli/arguments.h"
#include "cli/daemon_client.h"
#include "cli/layout.h"
#include "cli/private_run_dir.h"
#include "cli/start_hint.h"
#include "os/memfd.h"
#include "os/unique_fd.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

std::string reason() { return std::strerror(errno); }

/// The value of a line "NAME:\tVALUE" of /proc/self/status; empty without it.
std::string process_status(const std::string& name) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, name.size() + 2, name + ":\t") == 0) return line.substr(name.size() + 2);
    }
    return {};
}

Finding check_part(Part part, const char* name) {
    try {
        return {Health::kWorks, name, find_part(part).string(), ""};
    } catch (const std::exception& error) {
        return {
            Health::kFails, name, error.what(),
            "scripts/build in the source tree, or install the packages urnicd, urnic and libibverbs-urnic"};
    }
}

/// How a program ended, and all that it printed.
struct Ended {
    int status = 0;  // of waitpid()
    std::string said;
};

/// Throws std::system_error.
Ended run_program(const fs::path& program, std::vector<std::string> words) {
    const Arguments arguments(std::move(words));
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) {
        dup2(writer.get(), STDOUT_FILENO);
        dup2(writer.get(), STDERR_FILENO);
        execv(program.c_str(), arguments.get());
        dprintf(STDERR_FILENO, "cannot run %s: %s", program.c_str(), strerror(errno));
        _exit(127);
    }
    writer.reset();
    Ended ended;
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = read(reader.get(), piece.data(), piece.size())) > 0;) {
        ended.said.append(piece.data(), static_cast<std::size_t>(got));
    }
    waitpid(child, &ended.status, 0);
    while (!ended.said.empty() && ended.said.back() == '\n') ended.said.pop_back();
    return ended;
}

/// It may be there and not start, or be of another release than this program.
Finding check_daemon_program(const std::string& version) {
    Finding found = check_part(Part::kDaemon, "urnicd");
    if (found.health != Health::kWorks) return found;
    try {
        const Ended ended = run_program(found.detail, {"urnicd", "--version"});
        const std::string wanted = fmt::format("urnicd {}", version);
        if (ended.status != 0) {
            const std::string hint = start_hint(ended.said);
            found = {Health::kFails, "urnicd", fmt::format("{} does not start: {}", found.detail, ended.said),
                     hint.empty() ? "install the package urnicd again" : hint};
        } else if (ended.said != wanted) {
            found = {Health::kFails, "urnicd",
                     fmt::format("{} is \"{}\", and this is urnic {}", found.detail, ended.said, version),
                     "install the packages urnicd, urnic and libibverbs-urnic of one release"};
        }
    } catch (const std::system_error& error) {
        found = {Health::kFails, "urnicd", error.what(), "try again"};
    }
    return found;
}

/// Where the libibverbs that programs load here has providers that are named without a path; empty: there is
/// none.
fs::path providers_of_libibverbs() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return {};
    fs::path place;
    if (link_map* map = nullptr; dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
        place = fs::path(map->l_name).parent_path() / "libibverbs";
    }
    dlclose(library);
    return place;
}

/// By which libibverbs finds the provider in programs that urnic run does not start.
constexpr const char* kDriverFile = "/etc/libibverbs.d/urnic.driver";

Finding check_driver_file() {
    std::ifstream file(kDriverFile);
    std::string driver;
    if (!(file >> driver >> driver)) {
        return {
            Health::kLimited, "driver file",
            fmt::format("no driver in {}: urnic run does not need it, but programs find no provider after "
                        "urnic enter and urnic systemd-dropin",
                        kDriverFile),
            "apt install --reinstall -o Dpkg::Options::=--force-confmiss libibverbs-urnic"};
    }
    // As libibverbs does it: what has no slash lies in its own directory.
    const bool is_path = driver.find('/') != std::string::npos;
    const std::string provider =
        (is_path ? driver : (providers_of_libibverbs() / ("lib" + driver)).string()) + "-rdmav34.so";
    if (access(provider.c_str(), R_OK) != 0) {
        return {
            Health::kLimited, "driver file",
            fmt::format("{} names {}, which is not there: programs that urnic run does not start find no "
                        "provider, and libibverbs warns of it",
                        kDriverFile, provider),
            "apt install --reinstall libibverbs-urnic, or apt purge libibverbs-urnic to be rid of the rest"};
    }
    return {Health::kWorks, "driver file", fmt::format("{} names {}", kDriverFile, provider), ""};
}

Finding check_libibverbs() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return {Health::kFails, "libibverbs", dlerror(),  // NOLINT(concurrency-mt-unsafe)
                "apt install --reinstall libibverbs1"};
    }
    const bool fits = dlvsym(library, "verbs_register_driver_34", "IBVERBS_PRIVATE_34") != nullptr;
    dlclose(library);
    if (!fits) {
        return {Health::kFails, "libibverbs",
                fmt::format("that of {} has another private interface than the provider's "
                            "(IBVERBS_PRIVATE_34), so programs see no RNIC",
                            system_name()),
                "use rdma-core 34 to 56: Debian 12 and 13, Ubuntu 22.04 and 24.04 have one"};
    }
    return {Health::kWorks, "libibverbs", "libibverbs.so.1 loads providers of private ABI 34", ""};
}

Finding check_memfd() {
    Memfd file;
    if (const int error = create_memfd("urnic-doctor", 4096, Sharing::kReadOnlyForClients, file);
        error != 0) {
        return {Health::kFails, "memfd", fmt::format("no sealed memory files: {}", std::strerror(error)),
                "allow memfd_create() and fcntl(F_ADD_SEALS) in the container's seccomp profile; Linux 5.1 "
                "or later"};
    }
    return {Health::kWorks, "memfd", "rings and registered memory can be shared with a daemon", ""};
}

Finding check_conversion() {
    utsname kernel{};
    uname(&kernel);
    const KernelRelease release = kernel_release(kernel.release);
    constexpr const char* kCopied = "payload is copied through the kernel, so large messages are slower";
    if (release.major < 5 || (release.major == 5 && release.minor < 19)) {
        return {
            Health::kLimited, "userfaultfd",
            fmt::format("Linux {} cannot convert registered memory in place: {}", kernel.release, kCopied),
            "Linux 5.19 or later"};
    }
    const UniqueFd fault(
        static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    uffdio_api api{UFFD_API, 0, 0};
    if (!fault || ioctl(fault.get(), UFFDIO_API, &api) != 0) {
        return {Health::kLimited, "userfaultfd", fmt::format("refused ({}): {}", reason(), kCopied),
                process_status("Seccomp") == "2"
                    ? "allow userfaultfd() in the container's seccomp profile, or sysctl "
                      "vm.unprivileged_userfaultfd=1 on the host"
                    : "sysctl vm.unprivileged_userfaultfd=1"};
    }
    return {Health::kWorks, "userfaultfd", "registered memory is shared with the daemon in place", ""};
}

Finding check_run_dir() {
    std::string tried;
    const fs::path made = make_run_dir(false, tried);
    if (made.empty()) {
        return {Health::kFails, "run directory", fmt::format("no place for sockets ({})", tried),
                kRunDirHint};
    }
    std::error_code ignored;
    fs::remove(made, ignored);
    return {Health::kWorks, "run directory", fmt::format("{} can be written to", made.parent_path().string()),
            ""};
}

Finding check_mounts() {
    const pid_t child = fork();
    if (child == 0) _exit(unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 0 : errno);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return {Health::kLimited, "--mount", reason(), "try again"};
    if (const int error = WEXITSTATUS(status); error != 0) {
        return {Health::kLimited, "--mount",
                fmt::format("no user namespaces ({}): urnic run --mount does not work, urnic run does",
                            std::strerror(error)),
                "sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 "
                "kernel.apparmor_restrict_unprivileged_userns=0 (those that exist), or run it as root"};
    }
    if (access("/sys/module/ib_core", F_OK) == 0) {
        return {Health::kLimited, "--mount",
                "ib_core is loaded: libibverbs asks the kernel for devices, and finds no RNIC of urnic under "
                "urnic run --mount; under urnic run it does",
                "rmmod ib_core where nothing needs it"};
    }
    return {Health::kWorks, "--mount", "programs that LD_PRELOAD does not reach can be run with --mount", ""};
}

Finding check_shared_daemon() {
    try {
        const fs::path socket = default_socket();
        check_daemon(socket);
        return {Health::kWorks, "daemon", fmt::format("urnicd answers at {}", socket.string()), ""};
    } catch (const std::exception& error) {
        return {Health::kLimited, "daemon", error.what(),
                "only urnic run without --standalone needs it: systemctl enable --now urnicd"};
    }
}

struct PortRights {
    const char* port;
    std::uint64_t capabilities;
    const char* names;
};
constexpr std::uint64_t bit(unsigned capability) { return std::uint64_t{1} << capability; }
constexpr std::array<PortRights, 2> kPortRights = {
    {{"af_packet", bit(CAP_NET_RAW), "CAP_NET_RAW"},
     {"af_xdp", bit(CAP_NET_RAW) | bit(CAP_NET_ADMIN) | bit(CAP_BPF) | bit(CAP_PERFMON),
      "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON"}}};

Finding check_port(const PortRights& port) {
    const std::string text = process_status("CapEff");
    std::uint64_t effective = 0;
    std::from_chars(text.data(), text.data() + text.size(), effective, 16);
    if ((effective & port.capabilities) == port.capabilities) {
        return {Health::kWorks, port.port, "a daemon started here may open network interfaces this way", ""};
    }
    return {Health::kLimited, port.port, fmt::format("a daemon started here lacks {}", port.names),
            "only RNICs on network interfaces need it: start urnicd as root or by its systemd unit"};
}

}  // namespace

KernelRelease kernel_release(const std::string& text) {
    KernelRelease release;
    const char* end = text.data() + text.size();
    const auto [dot, error] = std::from_chars(text.data(), end, release.major);
    if (error != std::errc{} || dot == end || *dot != '.') return {};
    if (std::from_chars(dot + 1, end, release.minor).ec != std::errc{}) return {};
    return release;
}

std::vector<Finding> examine_machine(const std::string& version) {
    std::vector<Finding> findings{check_daemon_program(version),
                                  check_part(Part::kProvider, "provider"),
                                  check_part(Part::kShim, "shim"),
                                  check_libibverbs(),
                                  check_driver_file(),
                                  check_memfd(),
                                  check_run_dir(),
                                  check_conversion(),
                                  check_mounts(),
                                  check_shared_daemon()};
    for (const PortRights& port : kPortRights) findings.push_back(check_port(port));
    return findings;
}

Finding try_standalone() {
    try {
        const Ended ended =
            run_program(executable_directory() / "urnic", {"urnic", "run", "--standalone", "--", "true"});
        if (ended.status == 0)
            return {Health::kWorks, "--standalone", "a daemon started, served a command and ended", ""};
        return {Health::kFails, "--standalone", fmt::format("it does not start: {}", ended.said),
                "what the lines above say; urnic run --standalone --keep -- true keeps the daemon's log"};
    } catch (const std::system_error& error) {
        return {Health::kFails, "--standalone", error.what(), "try again"};
    }
}

}  // namespace urnic::cli
