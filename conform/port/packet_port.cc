#include "conform/port/packet_port.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "base/address_text.h"
#include "conform/live/vlan_tag.h"
#include "os/setup_error.h"
#include "rnic/neighbour/neighbour_message.h"
#include "rnic/wire/packet_view.h"
#include "rnic/wire/segmentation.h"

namespace urnic::conform {

namespace {

constexpr std::size_t kMaxFrame = 65536;
constexpr int kReceiveBytes = 32 << 20;
constexpr TimeNs kSecondNs = 1'000'000'000;
constexpr std::uint16_t kRocev2 = 4791;

std::string reason() { return std::strerror(errno); }

TimeNs to_ns(const timespec& time) {
    return static_cast<TimeNs>(time.tv_sec) * kSecondNs + static_cast<TimeNs>(time.tv_nsec);
}

struct InterfaceAddresses {
    ifaddrs* list = nullptr;
    InterfaceAddresses() { (void)::getifaddrs(&list); }
    InterfaceAddresses(const InterfaceAddresses&) = delete;
    InterfaceAddresses& operator=(const InterfaceAddresses&) = delete;
    ~InterfaceAddresses() {
        if (list != nullptr) {
            ::freeifaddrs(list);
        }
    }
};

/// IPv4-mapped or IPv6; nothing: of another family.
std::optional<Gid> gid_of(const sockaddr* address) {
    Gid gid{};
    if (address == nullptr) {
        return {};
    }
    if (address->sa_family == AF_INET) {
        sockaddr_in name{};
        std::memcpy(&name, address, sizeof name);
        gid[10] = gid[11] = 0xff;
        std::memcpy(&gid[12], &name.sin_addr, sizeof name.sin_addr);
        return gid;
    }
    if (address->sa_family == AF_INET6) {
        sockaddr_in6 name{};
        std::memcpy(&name, address, sizeof name);
        std::memcpy(gid.data(), &name.sin6_addr, gid.size());
        return gid;
    }
    return {};
}

/// Returns whether `peer` is another host of the network of `own` with that mask, whose last address is no
/// host's over IPv4.
bool is_neighbour(const Gid& own, const Gid& mask, const Gid& peer) {
    const bool is_ipv4 = wire::is_ipv4_mapped(own);
    if (own == peer || is_ipv4 != wire::is_ipv4_mapped(peer)) {
        return false;
    }
    bool is_first = true;
    bool is_last = true;
    for (std::size_t i = is_ipv4 ? 12 : 0; i < own.size(); ++i) {
        if ((own[i] & mask[i]) != (peer[i] & mask[i])) {
            return false;
        }
        is_first = is_first && (peer[i] & static_cast<std::uint8_t>(~mask[i])) == 0;
        is_last = is_last && (peer[i] | mask[i]) == 0xff;
    }
    const bool is_point_to_point = mask.back() >= 0xfe;
    return !is_ipv4 || is_point_to_point || (!is_first && !is_last);
}

// Taken: an RDMA device of this host has it, and the kernel sends no ICMP either.
UniqueFd udp_sink(const Gid& address, int index) {
    const bool is_ipv4 = wire::is_ipv4_mapped(address);
    UniqueFd fd(::socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    const int least = 1;
    sockaddr_in name{};
    sockaddr_in6 name6{};
    name.sin_family = AF_INET;
    name.sin_port = htons(kRocev2);
    std::memcpy(&name.sin_addr, &address[12], sizeof name.sin_addr);
    name6.sin6_family = AF_INET6;
    name6.sin6_port = htons(kRocev2);
    name6.sin6_scope_id = static_cast<std::uint32_t>(index);
    std::memcpy(&name6.sin6_addr, address.data(), address.size());
    if (fd) {
        (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    }
    const auto* where =
        is_ipv4 ? reinterpret_cast<const sockaddr*>(&name) : reinterpret_cast<const sockaddr*>(&name6);
    if (fd && ::bind(fd.get(), where, is_ipv4 ? sizeof name : sizeof name6) != 0 && errno != EADDRINUSE) {
        throw SetupError("cannot bind UDP port 4791: " + reason());
    }
    return fd;
}

// What the kernel says of a frame: when it came, and its VLAN tag.
void read_beside(msghdr& message, SeenFrame& frame) {
    for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
        if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_TIMESTAMPNS) {
            timespec stamp{};
            std::memcpy(&stamp, CMSG_DATA(item), sizeof stamp);
            frame.time = to_ns(stamp);
        } else if (item->cmsg_level == SOL_PACKET && item->cmsg_type == PACKET_AUXDATA) {
            tpacket_auxdata beside{};
            std::memcpy(&beside, CMSG_DATA(item), sizeof beside);
            if ((beside.tp_status & TP_STATUS_VLAN_VALID) != 0) {
                frame.vlan_tci = beside.tp_vlan_tci;
            }
        }
    }
}

using VnetHeader = std::array<std::byte, wire::kVnetHeaderBytes>;
constexpr VnetHeader kFrameAlone{};
/// What the kernel is told of a frame, and the frame.
using Pieces = std::array<iovec, 2>;

Pieces pieces_of(std::span<const std::byte> frame) {
    // The kernel only reads them.
    return {{{const_cast<std::byte*>(kFrameAlone.data()), kFrameAlone.size()},
             {const_cast<std::byte*>(frame.data()), frame.size()}}};
}

/// Frames that left a sender together come together over a veth (UDP segmentation offload).
std::vector<FrameBytes> cut(std::span<const std::byte> frame, const VnetHeader& vnet_header) {
    const auto whole = wire::SegmentedFrame::parse(frame, frame.size(), wire::segment_bytes_of(vnet_header));
    if (!whole) {
        return {FrameBytes(frame.begin(), frame.end())};
    }
    std::vector<FrameBytes> segments(whole->count());
    for (std::uint32_t i = 0; i < whole->count(); ++i) {
        const std::span<const std::byte> payload =
            frame.subspan(whole->front_bytes() + whole->payload_offset(i), whole->payload_bytes(i));
        segments[i].resize(whole->front_bytes());
        whole->write_front(i, segments[i].data());
        segments[i].insert(segments[i].end(), payload.begin(), payload.end());
    }
    return segments;
}

}  // namespace

PacketPort::PacketPort(const std::string& interface, std::uint16_t vlan, const Gid& peer,
                       std::uint32_t frames_per_second)
    : interface_(interface), vlan_(vlan), gap_ns_(kSecondNs / std::max(frames_per_second, 1U)) {
    look_at_interface();
    choose_addresses(peer);
    open_socket();
    rocev2_sink_ = udp_sink(address_, index_);
    if (second_address_) {
        second_rocev2_sink_ = udp_sink(*second_address_, index_);
    }
}

void PacketPort::open_socket() {
    frames_ = UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!frames_) {
        throw SetupError("cannot open a packet socket on " + interface_ + ": " + reason() +
                         "; the tester needs CAP_NET_RAW (run it as root)");
    }
    const int yes = 1;
    if (::setsockopt(frames_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof kReceiveBytes) != 0) {
        (void)::setsockopt(frames_.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
    }
    sockaddr_ll name{};
    name.sll_family = AF_PACKET;
    name.sll_protocol = htons(ETH_P_ALL);
    name.sll_ifindex = index_;
    // The kernel takes VLAN tags off, and says beside the frame what was in them.
    if (::setsockopt(frames_.get(), SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes) != 0 ||
        ::setsockopt(frames_.get(), SOL_PACKET, PACKET_AUXDATA, &yes, sizeof yes) != 0 ||
        ::setsockopt(frames_.get(), SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) != 0 ||
        ::bind(frames_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        throw SetupError("cannot take frames from " + interface_ + ": " + reason());
    }
}

void PacketPort::look_at_interface() {
    const UniqueFd query(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    if (interface_.empty() || interface_.size() >= sizeof request.ifr_name) {
        throw SetupError("'" + interface_ + "' is no name of an interface; `ip link` lists them");
    }
    std::memcpy(request.ifr_name, interface_.data(), interface_.size());
    const auto ask = [&](unsigned long what, const std::string& failure) {
        if (::ioctl(query.get(), what, &request) != 0) {
            throw SetupError("interface " + interface_ + ": " + failure + " (" + reason() + ")");
        }
    };
    ask(SIOCGIFINDEX, "there is none of that name here; `ip link` lists them");
    index_ = request.ifr_ifindex;
    ask(SIOCGIFHWADDR, "no MAC address");
    std::memcpy(mac_.data(), request.ifr_hwaddr.sa_data, mac_.size());
    ask(SIOCGIFFLAGS, "no flags");
    if ((request.ifr_flags & IFF_UP) == 0) {
        throw SetupError("interface " + interface_ + " is down; `ip link set " + interface_ + " up`");
    }
    if ((request.ifr_flags & IFF_LOOPBACK) != 0) {
        throw SetupError("interface " + interface_ + " is the loopback; the device is to be on a network");
    }
}

void PacketPort::choose_addresses(const Gid& peer) {
    const InterfaceAddresses addresses;
    std::string own;
    std::string chosen;  // the interface that has the address
    bool is_own = false;
    for (const ifaddrs* entry = addresses.list; entry != nullptr; entry = entry->ifa_next) {
        const std::optional<Gid> address = gid_of(entry->ifa_addr);
        const std::optional<Gid> mask = gid_of(entry->ifa_netmask);
        if (!address || !mask || (vlan_ == 0 && interface_ != entry->ifa_name)) {
            continue;
        }
        is_own = is_own || *address == peer;
        if (is_neighbour(*address, *mask, peer)) {
            if (chosen.empty()) {
                chosen = entry->ifa_name;
                address_ = *address;
            } else if (!second_address_ && chosen == entry->ifa_name) {
                second_address_ = *address;
            }
            continue;
        }
        if (wire::is_ipv4_mapped(*address) == wire::is_ipv4_mapped(peer)) {
            own += (own.empty() ? "" : ", ") + address_text(*address);
        }
    }
    if (!chosen.empty() && !is_own) {
        return;
    }
    const std::string family = wire::is_ipv4_mapped(peer) ? "IPv4" : "IPv6";
    if (vlan_ != 0) {
        throw SetupError("no interface of this host has an " + family + " address of " + address_text(peer) +
                         "'s network; `ip link add link " + interface_ + " name vlan" +
                         std::to_string(vlan_) + " type vlan id " + std::to_string(vlan_) +
                         "`, and an address on it");
    }
    if (own.empty()) {
        throw SetupError("interface " + interface_ + ": it has no " + family +
                         " address; `ip address add ADDRESS/PREFIX dev " + interface_ + "`");
    }
    throw SetupError(address_text(peer) + " is no host of the network that af_packet:" + interface_ +
                     " is on (" + own + "); the tester and the device have to be on one link");
}

TimeNs PacketPort::now() const {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return to_ns(time);
}

TimeNs PacketPort::take_turn(std::size_t frames) {
    TimeNs time = now();
    // Unless the clock was set back meanwhile.
    if (next_send_ > time && next_send_ < time + kSecondNs) {
        const timespec gap{0, static_cast<long>(next_send_ - time)};
        ::nanosleep(&gap, nullptr);
        time = now();
    }
    next_send_ = std::max(time, next_send_ > time + kSecondNs ? time : next_send_) + frames * gap_ns_;
    return time;
}

void PacketPort::wait_to_send(TimeNs end) const {
    if ((errno != EAGAIN && errno != ENOBUFS && errno != EINTR) || now() > end) {
        throw BenchFailed("cannot send on " + interface_ + ": " + reason() +
                          (errno == EMSGSIZE ? "; its MTU is smaller than the path MTU needs" : ""));
    }
    pollfd ready{frames_.get(), POLLOUT, 0};
    (void)::poll(&ready, 1, 1);
}

TimeNs PacketPort::send(std::span<const std::byte> frame) {
    return vlan_ == 0 ? put(frame) : put(with_vlan_tag(frame, vlan_));
}

TimeNs PacketPort::put(std::span<const std::byte> frame) {
    Pieces pieces = pieces_of(frame);
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const TimeNs time = take_turn(1);
    while (::sendmsg(frames_.get(), &message, 0) < 0) {
        wait_to_send(time + kSecondNs);
    }
    return time;
}

TimeNs PacketPort::send_together(const std::vector<FrameBytes>& untagged) {
    std::vector<FrameBytes> tagged;
    for (std::size_t i = 0; vlan_ != 0 && i < untagged.size(); ++i) {
        tagged.push_back(with_vlan_tag(untagged[i], vlan_));
    }
    const std::vector<FrameBytes>& frames = vlan_ != 0 ? tagged : untagged;
    std::vector<Pieces> pieces(frames.size());
    std::vector<mmsghdr> messages(frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
        pieces[i] = pieces_of(frames[i]);
        messages[i].msg_hdr.msg_iov = pieces[i].data();
        messages[i].msg_hdr.msg_iovlen = pieces[i].size();
    }
    const TimeNs time = take_turn(frames.size());
    for (std::size_t sent = 0; sent < frames.size();) {
        const auto left = static_cast<unsigned>(frames.size() - sent);
        const int taken = ::sendmmsg(frames_.get(), &messages[sent], left, 0);
        if (taken < 0) {
            wait_to_send(time + kSecondNs);
        } else {
            sent += static_cast<std::size_t>(taken);
        }
    }
    return time;
}

std::optional<SeenFrame> PacketPort::receive(TimeNs until) {
    std::vector<std::byte> buffer(kMaxFrame);
    for (;;) {
        if (!segments_.empty()) {
            SeenFrame frame = std::move(segments_.front());
            segments_.pop_front();
            return frame;
        }
        sockaddr_ll from{};
        VnetHeader vnet_header{};
        Pieces pieces{{{vnet_header.data(), vnet_header.size()}, {buffer.data(), buffer.size()}}};
        alignas(cmsghdr) std::array<char, 256> control{};
        msghdr message{};
        message.msg_name = &from;
        message.msg_namelen = sizeof from;
        message.msg_iov = pieces.data();
        message.msg_iovlen = pieces.size();
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        // Before the look: who is kept from running between the two sees what came until then.
        const TimeNs time = now();
        const ssize_t length = ::recvmsg(frames_.get(), &message, MSG_DONTWAIT);
        if (length >= 0) {
            const auto bytes = static_cast<std::size_t>(length);
            if (from.sll_pkttype == PACKET_OUTGOING || bytes < vnet_header.size()) {
                continue;
            }
            SeenFrame frame;
            frame.time = now();
            read_beside(message, frame);
            for (FrameBytes& segment : cut({buffer.data(), bytes - vnet_header.size()}, vnet_header)) {
                frame.bytes = std::move(segment);
                segments_.push_back(frame);
            }
            continue;
        }
        if (errno == ENETDOWN) {
            throw BenchFailed("interface " + interface_ + " went down");
        }
        if (errno != EAGAIN && errno != EINTR) {
            throw BenchFailed("cannot receive on " + interface_ + ": " + reason());
        }
        if (time >= until) {
            return {};
        }
        const TimeNs left = std::min<TimeNs>(until - time, kSecondNs);
        const timespec wait{static_cast<time_t>(left / kSecondNs), static_cast<long>(left % kSecondNs)};
        pollfd ready{frames_.get(), POLLIN, 0};
        (void)::ppoll(&ready, 1, &wait, nullptr);
    }
}

std::uint64_t PacketPort::lost() {
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    if (::getsockopt(frames_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0) {
        lost_ += stats.tp_drops;  // reading sets it to zero
    }
    return lost_;
}

std::optional<Mac> PacketPort::resolve(const Gid& neighbour, TimeNs patience_ns) {
    net::NeighbourMessage question;
    question.eth_src = question.sender_mac = mac_;
    question.eth_dst = net::kBroadcastMac;
    question.sender = address_;
    question.target = neighbour;
    if (!wire::is_ipv4_mapped(neighbour)) {
        const Gid group = net::solicited_node(neighbour);
        question.eth_dst = {0x33, 0x33, group[12], group[13], group[14], group[15]};
    }
    FrameBytes request(net::kMaxNeighbourBytes);
    constexpr std::size_t kLeastFrame = 60;
    request.resize(std::max(net::build_neighbour(question, request), kLeastFrame));
    constexpr int kTries = 3;
    for (int i = 0; i < kTries; ++i) {
        const TimeNs end = send(request) + patience_ns / kTries;
        while (const std::optional<SeenFrame> frame = receive(end)) {
            net::NeighbourMessage answer;
            if (is_of_vlan(*frame, vlan_) &&
                net::parse_neighbour(frame->bytes, answer) == net::NeighbourParse::kGood &&
                answer.op == net::NeighbourOp::kAnswer && answer.sender == neighbour &&
                answer.sender_mac != Mac{}) {
                return answer.sender_mac;
            }
            if (now() > end) {
                break;
            }
        }
    }
    return {};
}

}  // namespace urnic::conform
