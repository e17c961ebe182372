#include "dataplane/arp_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/eal.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kWhole = 0x1000;
constexpr std::uint32_t ancillary(int what) { return static_cast<std::uint32_t>(SKF_AD_OFF + what); }

/// Lets through what comes in without a VLAN tag and is ARP, or ICMPv6 of the types 135 and 136 (RFC 4861).
constexpr std::array<sock_filter, 14> kFilter{{
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, ancillary(SKF_AD_PKTTYPE)},
    {BPF_JMP | BPF_JEQ | BPF_K, 10, 0, PACKET_OUTGOING},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, ancillary(SKF_AD_VLAN_TAG_PRESENT)},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 8, 0},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, ancillary(SKF_AD_PROTOCOL)},
    {BPF_JMP | BPF_JEQ | BPF_K, 7, 0, ETH_P_ARP},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 5, ETH_P_IPV6},
    {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 6},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, IPPROTO_ICMPV6},
    {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 40},
    {BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 135},
    {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 136},
    {BPF_RET | BPF_K, 0, 0, 0},
    {BPF_RET | BPF_K, 0, 0, kWhole},
}};

}  // namespace

ArpSocket::ArpSocket(const NetNamespace& where, std::string interface) : interface_(std::move(interface)) {
    fd_ = where.run([] { return UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); });
    const sock_fprog program{static_cast<unsigned short>(kFilter.size()),
                             const_cast<sock_filter*>(kFilter.data())};
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    if (!fd_ || ::setsockopt(fd_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0 ||
        ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw EalError(std::string("cannot hear ARP on ") + interface_ + ": " + std::strerror(errno));
    }
}

int ArpSocket::interface_index() const {
    ifreq request{};
    std::memcpy(request.ifr_name, interface_.data(),
                std::min(interface_.size(), sizeof request.ifr_name - 1));
    return ::ioctl(fd_.get(), SIOCGIFINDEX, &request) == 0 ? request.ifr_ifindex : 0;
}

bool ArpSocket::receive(FrameInbox::Frame& frame) const {
    sockaddr_ll from{};
    socklen_t from_bytes = sizeof from;
    const ssize_t length = ::recvfrom(fd_.get(), frame.bytes.data(), frame.bytes.size(), MSG_TRUNC,
                                      reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (length < 0) {
        frame.length = 0;
        return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    }
    const bool ours =
        from.sll_ifindex == interface_index() && static_cast<std::size_t>(length) <= frame.bytes.size();
    frame.length = ours ? static_cast<std::uint16_t>(length) : std::uint16_t{0};
    return true;
}

}  // namespace urnic::dataplane
