#include "ulp/ipoib/tap/tap_device.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ulp/ipoib/tap/posix_error.h"

namespace urnic::ipoib {

namespace {

/// A socket for the ioctls of interfaces.
class ControlSocket {
  public:
    ControlSocket() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        if (fd_ < 0) {
            throw errno_error("a socket to set the TAP device up", "");
        }
    }
    ~ControlSocket() { ::close(fd_); }
    ControlSocket(const ControlSocket&) = delete;
    ControlSocket& operator=(const ControlSocket&) = delete;
    void request(unsigned long code, ifreq& request, const std::string& what) const {
        if (::ioctl(fd_, code, &request) < 0) {
            throw errno_error(what, "CAP_NET_ADMIN in this network namespace is needed");
        }
    }

  private:
    int fd_;
};

ifreq named(const std::string& name) {
    ifreq request{};
    name.copy(static_cast<char*>(request.ifr_name), IFNAMSIZ - 1);
    return request;
}

}  // namespace

TapDevice::TapDevice(const std::string& name, const Mac& mac, std::uint32_t mtu) {
    if (name.size() >= IFNAMSIZ) {
        throw SetupError("interface name " + name + " is longer than " + std::to_string(IFNAMSIZ - 1) +
                         " characters");
    }
    fd_ = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) {
        throw errno_error("cannot open /dev/net/tun",
                          "load the module tun, or give the container /dev/net/tun");
    }
    try {
        ifreq request = named(name);
        request.ifr_flags = IFF_TAP | IFF_NO_PI;
        if (::ioctl(fd_, TUNSETIFF, &request) < 0) {
            throw errno_error(
                "cannot make TAP device " + (name.empty() ? "ib%d" : name),
                "CAP_NET_ADMIN is needed (as a user: unshare -Urn), and a name that no interface has");
        }
        name_ = static_cast<const char*>(request.ifr_name);
        const ControlSocket control;
        request = named(name_);
        request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        std::copy(mac.begin(), mac.end(), reinterpret_cast<std::byte*>(request.ifr_hwaddr.sa_data));
        control.request(SIOCSIFHWADDR, request, "cannot set the MAC of " + name_);
        request = named(name_);
        request.ifr_mtu = static_cast<int>(mtu);
        control.request(SIOCSIFMTU, request, "cannot set the MTU of " + name_ + " to " + std::to_string(mtu));
        request = named(name_);
        control.request(SIOCGIFFLAGS, request, "cannot read the flags of " + name_);
        request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
        control.request(SIOCSIFFLAGS, request, "cannot set " + name_ + " up");
    } catch (...) {
        ::close(fd_);
        throw;
    }
}

TapDevice::~TapDevice() { ::close(fd_); }

ConstOctets TapDevice::read() {
    const ssize_t octets = ::read(fd_, frame_.data(), frame_.size());
    return octets > 0 ? ConstOctets(frame_).first(static_cast<std::size_t>(octets)) : ConstOctets();
}

bool TapDevice::write(ConstOctets header, ConstOctets payload) const {
    std::array<iovec, 2> pieces{};
    pieces[0] = {const_cast<std::byte*>(header.data()), header.size()};
    pieces[1] = {const_cast<std::byte*>(payload.data()), payload.size()};
    return ::writev(fd_, pieces.data(), static_cast<int>(pieces.size())) >= 0;
}

}  // namespace urnic::ipoib
