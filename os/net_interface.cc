#include "os/net_interface.h"

#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "os/setup_error.h"

namespace urnic {

namespace {

/// IPv6, UDP, BTH, the longest extended headers that come with payload (XRCETH, RETH, immediate), ICRC.
constexpr std::uint32_t kHeaderBytes = 40 + 8 + 12 + 4 + 16 + 4 + 4;
/// People set round numbers.
constexpr std::uint32_t kRoundTo = 100;

UniqueFd open_socket(int family, int type, int protocol) {
    UniqueFd fd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
    if (!fd) {
        throw SetupError(std::string("cannot make a socket to look at network interfaces: ") +
                         std::strerror(errno));
    }
    return fd;
}

}  // namespace

NetInterface::NetInterface(const std::string& name)
    : name_(name),
      query_(open_socket(AF_UNIX, SOCK_DGRAM, 0)),
      changes_(open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)) {
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    if (::bind(changes_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw SetupError("cannot listen to what the kernel says of network interfaces: " +
                         std::string(std::strerror(errno)));
    }
}

InterfaceFacts NetInterface::look() const {
    InterfaceFacts facts;
    ifreq request{};
    std::memcpy(request.ifr_name, name_.data(), std::min(name_.size(), sizeof request.ifr_name - 1));
    if (::ioctl(query_.get(), SIOCGIFINDEX, &request) != 0) {
        return {};
    }
    facts.index = request.ifr_ifindex;
    if (::ioctl(query_.get(), SIOCGIFHWADDR, &request) == 0) {
        std::memcpy(facts.mac.data(), request.ifr_hwaddr.sa_data, facts.mac.size());
    }
    if (::ioctl(query_.get(), SIOCGIFMTU, &request) == 0) {
        facts.mtu_bytes = static_cast<std::uint32_t>(request.ifr_mtu);
    }
    if (::ioctl(query_.get(), SIOCGIFFLAGS, &request) != 0) {
        return {};  // it went away meanwhile
    }
    facts.is_up = (request.ifr_flags & IFF_UP) != 0;
    facts.link = facts.is_up && (request.ifr_flags & IFF_RUNNING) != 0;
    return facts;
}

std::string NetInterface::look_up_driver() const {
    ethtool_drvinfo info{};
    info.cmd = ETHTOOL_GDRVINFO;
    ifreq request{};
    std::memcpy(request.ifr_name, name_.data(), std::min(name_.size(), sizeof request.ifr_name - 1));
    request.ifr_data = reinterpret_cast<char*>(&info);
    if (::ioctl(query_.get(), SIOCETHTOOL, &request) != 0) {
        return {};
    }
    return {info.driver, ::strnlen(info.driver, sizeof info.driver)};
}

void NetInterface::forget_changes() const {
    std::array<char, 8192> ignored{};
    // ENOBUFS: some were lost; whoever looks afterwards sees what they led to.
    while (::recv(changes_.get(), ignored.data(), ignored.size(), 0) >= 0 || errno == ENOBUFS) {
    }
}

std::uint32_t path_mtu_within(std::uint32_t interface_mtu_bytes) {
    std::uint32_t mtu = 4096;
    while (mtu >= 256 && mtu + kHeaderBytes > interface_mtu_bytes) {
        mtu /= 2;
    }
    return mtu >= 256 ? mtu : 0;
}

std::uint32_t interface_mtu_for(std::uint32_t path_mtu_bytes) {
    return (path_mtu_bytes + kHeaderBytes + kRoundTo - 1) / kRoundTo * kRoundTo;
}

}  // namespace urnic
