#include "daemon/port_hints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "os/setup_error.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

namespace {

constexpr const char* kAskDpdk = "urnicd --verbose shows what DPDK says";

std::string pci_hint(const std::string& address) {
    const std::filesystem::path device = "/sys/bus/pci/devices/" + address;
    std::error_code error;
    if (!std::filesystem::exists(device, error)) {
        return fmt::format("There is no PCI device {} here: lspci -D lists them", address);
    }
    const std::string driver = std::filesystem::read_symlink(device / "driver", error).filename();
    if (driver == "vfio-pci" || driver == "uio_pci_generic" || driver == "igb_uio") {
        return fmt::format(
            "It is bound to {}: run urnicd as root, or as a user who may open /dev/vfio (ls -l /dev/vfio); "
            "{}",
            driver, kAskDpdk);
    }
    if (driver.starts_with("mlx")) {  // DPDK's driver works beside the kernel's
        return fmt::format("It is bound to {}, as it must be: run urnicd as root; {}", driver, kAskDpdk);
    }
    return fmt::format(
        "It is bound to {}, which DPDK cannot use: sudo modprobe vfio-pci && sudo dpdk-devbind.py "
        "--bind=vfio-pci {}; {}",
        driver.empty() ? "no driver" : "the driver " + driver, address, kAskDpdk);
}

bool is_socket(const std::string& path) {
    struct stat facts {};
    return ::lstat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
}

bool accepts_memif(const std::string& path) {
    const UniqueFd asking(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof address.sun_path - 1));
    return !asking ||
           ::connect(asking.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
           errno != ECONNREFUSED;
}

std::string memif_hint(const std::string& socket, bool is_server) {
    const std::string folder = std::filesystem::path(socket).parent_path();
    struct stat facts {};
    const bool is_there = ::lstat(socket.c_str(), &facts) == 0;
    if (is_there && !S_ISSOCK(facts.st_mode)) {
        return fmt::format("{} is no socket: remove it (rm {}), or name another 'socket'", socket, socket);
    }
    if (is_there && is_server) {
        return fmt::format(
            "Another program has the socket {} (sudo ss -xlp src {} names it): end it first, or name another "
            "'socket'",
            socket, socket);
    }
    if (is_server && ::access(folder.c_str(), W_OK | X_OK) != 0) {
        return fmt::format("The directory {}: {}. Make it for this user (sudo install -d -o $USER {})",
                           folder, std::strerror(errno), folder);
    }
    return kAskDpdk;
}

}  // namespace

std::string port_hint(const RnicConfig& rnic) {
    switch (rnic.port) {
        case PortKind::kPci:
            return pci_hint(rnic.port_device);
        case PortKind::kMemif:
            return memif_hint(rnic.port_device, rnic.is_memif_server);
        default:
            return fmt::format("Check the arguments in 'device' (\"{}\"); {}", rnic.port_device, kAskDpdk);
    }
}

void remove_stale_memif_socket(const RnicConfig& rnic) {
    if (rnic.is_memif_server && is_socket(rnic.port_device) && !accepts_memif(rnic.port_device)) {
        (void)::unlink(rnic.port_device.c_str());
    }
}

// By a descriptor: whoever may write to its directory could put something else there meanwhile.
void give_memif_socket(const RnicConfig& rnic, const Account& owner) {
    const UniqueFd socket(::open(rnic.port_device.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts {};
    if (!socket || ::fstat(socket.get(), &facts) != 0 || !S_ISSOCK(facts.st_mode) ||
        facts.st_uid != ::geteuid() ||
        ::fchownat(socket.get(), "", owner.uid, owner.gid, AT_EMPTY_PATH) != 0) {
        throw SetupError(fmt::format("{}: cannot give the socket {} to {}: {}", rnic.name, rnic.port_device,
                                     owner.name, std::strerror(errno)));
    }
}

}  // namespace urnic::daemon
