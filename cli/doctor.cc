#include "cli/doctor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

#include "cli/daemon_client.h"
#include "cli/layout.h"
#include "cli/private_run_dir.h"
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

Finding check_libibverbs() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return {Health::kFails, "libibverbs", dlerror(),  // NOLINT(concurrency-mt-unsafe)
                "apt install libibverbs1"};
    }
    const bool fits = dlvsym(library, "verbs_register_driver_34", "IBVERBS_PRIVATE_34") != nullptr;
    dlclose(library);
    if (!fits) {
        return {Health::kFails, "libibverbs",
                "this libibverbs has another private interface than the provider's (IBVERBS_PRIVATE_34)",
                "use rdma-core 34 to 56: Debian 12 and 13, Ubuntu 22.04 and 24.04 have one"};
    }
    return {Health::kWorks, "libibverbs", "libibverbs.so.1 loads providers of private ABI 34", ""};
}

Finding check_memfd() {
    const UniqueFd file(memfd_create("urnic-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        return {
            Health::kFails, "memfd", fmt::format("no sealed memory files: {}", reason()),
            "allow memfd_create() and F_ADD_SEALS in the container's seccomp profile; Linux 3.17 or later"};
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
                kRunDirRemedy};
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

std::vector<Finding> examine_machine() {
    std::vector<Finding> findings{check_part(Part::kDaemon, "urnicd"),
                                  check_part(Part::kProvider, "provider"),
                                  check_part(Part::kShim, "shim"),
                                  check_libibverbs(),
                                  check_memfd(),
                                  check_run_dir(),
                                  check_conversion(),
                                  check_mounts(),
                                  check_shared_daemon()};
    for (const PortRights& port : kPortRights) findings.push_back(check_port(port));
    return findings;
}

Finding try_standalone() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return {Health::kFails, "--standalone", reason(), "try again"};
    const UniqueFd said(ends[0]);
    UniqueFd says(ends[1]);
    const std::string program = (executable_directory() / "urnic").string();
    const pid_t child = fork();
    if (child == 0) {
        dup2(says.get(), STDERR_FILENO);
        execl(program.c_str(), "urnic", "run", "--standalone", "--", "true", nullptr);
        dprintf(STDERR_FILENO, "cannot run %s: %s", program.c_str(), strerror(errno));
        _exit(127);
    }
    says.reset();
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = read(said.get(), piece.data(), piece.size())) > 0;) {
        text.append(piece.data(), static_cast<std::size_t>(got));
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status == 0)
        return {Health::kWorks, "--standalone", "a daemon started, served a command and ended", ""};
    return {Health::kFails, "--standalone", fmt::format("it does not start: {}", text),
            "what the lines above say; urnic run --standalone --keep -- true keeps the daemon's log"};
}

}  // namespace urnic::cli
