#include "daemon/neighbour/frame_socket.h"

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
#include <optional>
#include <span>

#include "os/setup_error.h"
#include "rnic/wire/layout.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kWhole = 0x1000;
constexpr std::uint32_t ancillary(int what) { return static_cast<std::uint32_t>(SKF_AD_OFF + what); }

/// Lets through what comes in and is ARP, or ICMPv6 of the types 135 and 136 (RFC 4861). The kernel has taken
/// the outermost VLAN tag off.
constexpr std::array<sock_filter, 12> kNeighbourFilter{{
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, ancillary(SKF_AD_PKTTYPE)},
    {BPF_JMP | BPF_JEQ | BPF_K, 8, 0, PACKET_OUTGOING},
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

/// Lets through what comes in and is a query of IGMP (RFC 3376), or of MLD behind a hop-by-hop header of 8
/// bytes (RFC 3810).
constexpr std::array<sock_filter, 18> kQueryFilter{{
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, ancillary(SKF_AD_PKTTYPE)},
    {BPF_JMP | BPF_JEQ | BPF_K, 14, 0, PACKET_OUTGOING},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, ancillary(SKF_AD_PROTOCOL)},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 5, ETH_P_IP},
    {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 9},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 10, IPPROTO_IGMP},
    {BPF_LDX | BPF_B | BPF_MSH, 0, 0, 14},
    {BPF_LD | BPF_B | BPF_IND, 0, 0, 14},
    {BPF_JMP | BPF_JEQ | BPF_K, 8, 7, 0x11},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 6, ETH_P_IPV6},
    {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 6},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 4, IPPROTO_HOPOPTS},
    {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 40},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 2, IPPROTO_ICMPV6},
    {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 48},
    {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 130},
    {BPF_RET | BPF_K, 0, 0, 0},
    {BPF_RET | BPF_K, 0, 0, kWhole},
}};
/// General queries go to all hosts and all nodes; where the interface has no address the kernel is in neither
/// group.
constexpr std::array<std::array<std::uint8_t, 6>, 2> kQueryGroups{
    {{0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}, {0x33, 0x33, 0x00, 0x00, 0x00, 0x01}}};

constexpr std::size_t kMacBytes = 12;  // the two addresses, behind which a VLAN tag goes

/// The tag that the kernel took off; nullopt: there was none.
std::optional<std::array<std::uint8_t, wire::kVlanTagBytes>> tag_of(const msghdr& message) {
    for (const cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
         control = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(control))) {
        tpacket_auxdata more{};
        if (control->cmsg_level != SOL_PACKET || control->cmsg_type != PACKET_AUXDATA ||
            control->cmsg_len < CMSG_LEN(sizeof more)) {
            continue;
        }
        std::memcpy(&more, CMSG_DATA(control), sizeof more);
        if ((more.tp_status & TP_STATUS_VLAN_VALID) == 0) {
            return std::nullopt;
        }
        const auto type = (more.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0
                              ? more.tp_vlan_tpid
                              : std::uint16_t{wire::kEtherTypeVlan};
        return std::array<std::uint8_t, wire::kVlanTagBytes>{
            static_cast<std::uint8_t>(type >> 8U), static_cast<std::uint8_t>(type),
            static_cast<std::uint8_t>(more.tp_vlan_tci >> 8U), static_cast<std::uint8_t>(more.tp_vlan_tci)};
    }
    return std::nullopt;
}

}  // namespace

FrameSocket::FrameSocket(const NetNamespace& where, std::string interface, Kind kind)
    : interface_(std::move(interface)) {
    fd_ = where.run([] { return UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); });
    const bool is_for_queries = kind == Kind::kQueries;
    const std::span<const sock_filter> filter =
        is_for_queries ? std::span<const sock_filter>(kQueryFilter) : kNeighbourFilter;
    const sock_fprog program{static_cast<unsigned short>(filter.size()),
                             const_cast<sock_filter*>(filter.data())};
    const int yes = 1;
    if (!fd_ || ::setsockopt(fd_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0 ||
        ::setsockopt(fd_.get(), SOL_PACKET, PACKET_AUXDATA, &yes, sizeof yes) != 0) {
        throw SetupError(std::string("cannot hear ") + (is_for_queries ? "membership queries" : "ARP") +
                         " on " + interface_ + ": " + std::strerror(errno));
    }
    for (const auto& group : kQueryGroups) {
        packet_mreq request{};
        request.mr_ifindex = interface_index();
        request.mr_type = PACKET_MR_MULTICAST;
        request.mr_alen = static_cast<unsigned short>(group.size());
        std::copy(group.begin(), group.end(), std::begin(request.mr_address));
        if (is_for_queries) {
            // An interface that is away is one whose kernel is in these groups itself when it has addresses.
            (void)::setsockopt(fd_.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request);
        }
    }
    if (!is_for_queries) {
        hear(true);
    }
}

void FrameSocket::hear(bool does) const {
    // A socket that was bound once cannot be taken off all protocols again; nobody sends this one.
    constexpr std::uint16_t kNobodys = 0x88b6;
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(does ? std::uint16_t{ETH_P_ALL} : kNobodys);
    if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw SetupError("cannot hear what comes to " + interface_ + ": " + std::strerror(errno));
    }
}

int FrameSocket::interface_index() const {
    ifreq request{};
    std::memcpy(request.ifr_name, interface_.data(),
                std::min(interface_.size(), sizeof request.ifr_name - 1));
    return ::ioctl(fd_.get(), SIOCGIFINDEX, &request) == 0 ? request.ifr_ifindex : 0;
}

bool FrameSocket::receive(dataplane::FrameInbox::Frame& frame) const {
    sockaddr_ll from{};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(tpacket_auxdata))> control{};
    iovec room{frame.bytes.data(), frame.bytes.size() - wire::kVlanTagBytes};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &room;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = ::recvmsg(fd_.get(), &message, MSG_TRUNC);
    if (length < 0) {
        frame.length = 0;
        return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    }
    auto bytes = static_cast<std::size_t>(length);
    const bool ours = from.sll_ifindex == interface_index() && bytes >= kMacBytes && bytes <= room.iov_len;
    if (const auto tag = tag_of(message); ours && tag) {
        std::byte* const at = frame.bytes.data() + kMacBytes;
        std::memmove(at + tag->size(), at, bytes - kMacBytes);
        std::memcpy(at, tag->data(), tag->size());
        bytes += tag->size();
    }
    frame.length = ours ? static_cast<std::uint16_t>(bytes) : std::uint16_t{0};
    return true;
}

}  // namespace urnic::daemon
