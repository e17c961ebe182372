#include "ulp/ipoib/tap/tap_device.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ulp/ipoib/tap/setup_error.h"

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
        request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
        if (::ioctl(fd_, TUNSETIFF, &request) < 0) {
            throw errno_error(
                "cannot make TAP device " + (name.empty() ? "ib%d" : name),
                "CAP_NET_ADMIN is needed (as a user: unshare -Urn), and a name that no interface has");
        }
        name_ = static_cast<const char*>(request.ifr_name);
        set_offloads();
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

/// What the kernel may leave to this device; a kernel that does not know a bit refuses all of them.
void TapDevice::set_offloads() const {
    int octets = kOffloadOctets;
    int is_little = 1;
    if (::ioctl(fd_, TUNSETVNETHDRSZ, &octets) < 0 || ::ioctl(fd_, TUNSETVNETLE, &is_little) < 0) {
        throw errno_error("cannot set the offload header of " + name_, "Linux 4.0 or later is needed");
    }
#ifdef TUN_F_USO4
    constexpr unsigned kUdp4 = TUN_F_USO4;
    constexpr unsigned kUdp6 = TUN_F_USO6;
#else
    // Linux 6.2 has them; older headers do not.
    constexpr unsigned kUdp4 = 0x20;
    constexpr unsigned kUdp6 = 0x40;
#endif
    constexpr unsigned kTcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    for (const unsigned offloads : {kTcp | kUdp4 | kUdp6, kTcp, 0U}) {
        if (::ioctl(fd_, TUNSETOFFLOAD, offloads) == 0) {
            return;
        }
    }
    throw errno_error("cannot set the offloads of " + name_, "");
}

Octets TapDevice::read(Offload& offload) {
    const ssize_t octets = ::read(fd_, frame_.data(), frame_.size());
    if (octets <= static_cast<ssize_t>(kOffloadOctets)) {
        return {};
    }
    offload = read_offload(frame_);
    return Octets(frame_).first(static_cast<std::size_t>(octets)).subspan(kOffloadOctets);
}

void TapDevice::write(const Offload& offload, std::span<const ConstOctets> pieces) {
    std::array<std::byte, kOffloadOctets> header{};
    write_offload(header, offload);
    std::array<iovec, Coalescer::kMostSegments + 2> vectors{};
    if (pieces.size() >= vectors.size()) {
        ++refusals_;
        return;
    }
    vectors[0] = {header.data(), header.size()};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        vectors[i + 1] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    refusals_ += ::writev(fd_, vectors.data(), static_cast<int>(pieces.size() + 1)) < 0 ? 1 : 0;
}

}  // namespace urnic::ipoib
