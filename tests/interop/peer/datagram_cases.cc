// UD: datagrams of odd sizes, with and without immediate data, to one QP and to a group; what the GRH says.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tests/interop/peer/cases.h"

namespace urnic::interop {

namespace {

constexpr std::size_t kGrh = 40;
constexpr std::size_t kSlot = 8192;
constexpr std::uint32_t kMulticastQpn = 0xFFFFFF;
constexpr std::uint32_t kDatagramImmediate = 0xFEDC0000;

std::vector<std::size_t> sizes(const Side& side) {
    const auto mtu = static_cast<std::size_t>(side.options().mtu);
    return {0, 1, 2, 3, 4, 63, 100, mtu - 3, mtu - 1, mtu};
}

bool is_ipv4(const ibv_gid& gid) {
    constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    return std::equal(kMapped.begin(), kMapped.end(), gid.raw);
}

/// The room for the GRH: an IPv6 header, or in its last 20 bytes an IPv4 one.
void verify_grh(std::span<const std::uint8_t> grh, const ibv_gid& from, const ibv_gid& to) {
    if (is_ipv4(to)) {
        check(grh[20] == 0x45, "no IPv4 header where the GRH is");
        check(std::equal(from.raw + 12, from.raw + 16, &grh[32]) &&
                  std::equal(to.raw + 12, to.raw + 16, &grh[36]),
              "the IPv4 header has other addresses");
    } else {
        check(grh[0] >> 4U == 6, "no IPv6 header where the GRH is");
        check(std::equal(from.raw, from.raw + 16, &grh[8]) && std::equal(to.raw, to.raw + 16, &grh[24]),
              "the GRH has other addresses");
    }
}

void send_all(Side& side, const ibv_gid& to, std::uint32_t qpn, std::uint32_t qkey, bool wait_each) {
    const auto handle = side.address_handle(to);
    std::uint32_t number = 0;
    for (const std::size_t size : sizes(side)) {
        fill(side.memory().subspan(kSlot * number, size), number);
        ibv_sge sge = side.piece(kSlot * number, size);
        ibv_send_wr request = side.request(number % 2 != 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, sge, 0);
        request.wr_id = number;
        request.imm_data = htonl(kDatagramImmediate + number);
        request.wr.ud = {.ah = handle.get(), .remote_qpn = qpn, .remote_qkey = qkey};
        side.post(request);
        side.success(number);
        ++number;
        if (wait_each) {
            side.link().meet("one");
        }
    }
}

void receive_all(Side& side, const ibv_gid& to) {
    std::uint32_t number = 0;
    for (const std::size_t size : sizes(side)) {
        const ibv_wc wc = side.success(number);
        const auto slot = side.memory().subspan(kSlot * number, kSlot);
        check(wc.byte_len == size + kGrh, "the receive has another length");
        check((wc.wc_flags & IBV_WC_GRH) != 0, "the receive has no GRH");
        check(wc.src_qp == side.peer().qpn, "the receive names another sender");
        check(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == (number % 2 != 0), "immediate data");
        check(number % 2 == 0 || ntohl(wc.imm_data) == kDatagramImmediate + number, "other immediate data");
        verify_grh(slot, side.peer().gid, to);
        verify(slot.subspan(kGrh, size), number, "datagram");
        verify_untouched(slot.subspan(kGrh + size, 100), 0, "behind the datagram");
        ++number;
        side.link().meet("one");
    }
}

void post_all(Side& side) {
    for (std::uint32_t number = 0; number < sizes(side).size(); ++number) {
        side.post_receive(number, side.piece(kSlot * number, kSlot));
    }
}

ibv_gid own_gid(const Side& side) {
    ibv_gid gid{};
    ibv_query_gid(side.pd()->context, 1, side.options().gid_index, &gid);
    return gid;
}

void datagrams(Side& side) {
    side.connect(IBV_QPT_UD);
    if (!side.active()) {
        post_all(side);
    }
    side.link().meet("posted");
    if (side.active()) {
        // With another Q_Key first: dropped, so that no receive is used up by it.
        const auto handle = side.address_handle(side.peer().gid);
        ibv_sge sge = side.piece(0, 10);
        ibv_send_wr request = side.request(IBV_WR_SEND, sge, 0);
        request.wr.ud = {.ah = handle.get(), .remote_qpn = side.peer().qpn, .remote_qkey = kQkey + 1};
        side.post(request);
        side.success(0);
        send_all(side, side.peer().gid, side.peer().qpn, kQkey, true);
    } else {
        receive_all(side, own_gid(side));
    }
    side.link().meet("transferred");
}

/// A group of the family of the GID that is used.
ibv_gid group_for(const Side& side) {
    ibv_gid gid{};
    const char* name = is_ipv4(own_gid(side)) ? "::ffff:239.77.1.2" : "ff0e::77:2";
    inet_pton(AF_INET6, name, gid.raw);
    return gid;
}

/// The interface that has the address of a GID; 0: none.
unsigned interface_of(const ibv_gid& gid) {
    ifaddrs* all = nullptr;
    getifaddrs(&all);
    unsigned found = 0;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        const int family = one->ifa_addr != nullptr ? one->ifa_addr->sa_family : AF_UNSPEC;
        const bool same =
            (family == AF_INET && is_ipv4(gid) &&
             std::memcmp(&reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, gid.raw + 12, 4) ==
                 0) ||
            (family == AF_INET6 &&
             std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, gid.raw, 16) == 0);
        found = same ? if_nametoindex(one->ifa_name) : found;
    }
    freeifaddrs(all);
    return found;
}

/// Makes the kernel a member of the group, as the connection manager does before ibv_attach_mcast: rxe
/// receives through the kernel's IP, which drops what is for a group that nobody has joined. Returns the
/// socket that holds it.
int join(const ibv_gid& own, const ibv_gid& group) {
    const int fd = ::socket(is_ipv4(group) ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
    int result = 0;
    if (is_ipv4(group)) {
        ip_mreqn request{};
        std::memcpy(&request.imr_multiaddr, group.raw + 12, 4);
        request.imr_ifindex = static_cast<int>(interface_of(own));
        result = ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    } else {
        ipv6_mreq request{};
        std::memcpy(&request.ipv6mr_multiaddr, group.raw, 16);
        request.ipv6mr_interface = interface_of(own);
        result = ::setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
    }
    check(result == 0, std::string("the kernel does not join the group: ") + std::strerror(errno));
    return fd;
}

void multicast(Side& side) {
    side.connect(IBV_QPT_UD);
    const ibv_gid group = group_for(side);
    const int membership = side.active() ? -1 : join(own_gid(side), group);
    if (!side.active()) {
        post_all(side);
        check(ibv_attach_mcast(side.qp(), &group, 0) == 0,
              std::string("ibv_attach_mcast: ") + std::strerror(errno));
    }
    side.link().meet("attached");
    if (side.active()) {
        send_all(side, group, kMulticastQpn, kQkey, true);
    } else {
        receive_all(side, group);
        check(ibv_detach_mcast(side.qp(), &group, 0) == 0, "ibv_detach_mcast");
    }
    // Who is no member hears nothing.
    if (!side.active()) {
        side.post_receive(500, side.piece(kSlot * 20, kSlot));
    }
    side.link().meet("detached");
    if (side.active()) {
        const auto to_group = side.address_handle(group);
        const auto to_peer = side.address_handle(side.peer().gid);
        for (const auto& [handle, qpn, length] : {std::tuple{to_group.get(), kMulticastQpn, 10U},
                                                  std::tuple{to_peer.get(), side.peer().qpn, 20U}}) {
            ibv_sge sge = side.piece(0, length);
            ibv_send_wr request = side.request(IBV_WR_SEND, sge, 0);
            request.wr.ud = {.ah = handle, .remote_qpn = qpn, .remote_qkey = kQkey};
            side.post(request);
            side.success(0);
        }
    } else {
        check(side.success(500).byte_len == 20 + kGrh,
              "a datagram to the group came after the QP had left it");
    }
    side.link().meet("transferred");
    if (membership >= 0) {
        ::close(membership);
    }
}

constexpr std::array kDatagramCases{
    Case{"ud", "UD datagrams of odd sizes, with immediate; another Q_Key is dropped", datagrams},
    Case{"multicast", "UD datagrams to a group; none after leaving it", multicast},
};

}  // namespace

std::span<const Case> datagram_cases() { return kDatagramCases; }

}  // namespace urnic::interop
