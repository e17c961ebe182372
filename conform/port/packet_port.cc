#include "conform/port/packet_port.h"

#include <arpa/inet.h>
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
#include <vector>

#include "base/bytes.h"
#include "os/setup_error.h"

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

std::uint32_t as_number(const Ipv4Address& address) {
    return wire::load_be32(reinterpret_cast<const std::byte*>(address.data()));
}

// ARP for IPv4 over Ethernet (RFC 826).
constexpr std::size_t kArpBytes = 42;
constexpr std::size_t kArpOperation = 20;
constexpr std::size_t kArpSenderMac = 22;
constexpr std::size_t kArpSenderIp = 28;
constexpr std::size_t kArpTargetIp = 38;
constexpr std::uint16_t kArpRequest = 1;
constexpr std::uint16_t kArpReply = 2;

FrameBytes arp_request(const Mac& own, const Ipv4Address& from, const Ipv4Address& to) {
    FrameBytes frame(60);
    const auto put = [&](std::size_t at, const auto& bytes) {
        std::memcpy(frame.data() + at, bytes.data(), bytes.size());
    };
    constexpr std::array<std::uint8_t, 8> kHeader = {0x08, 0x06, 0, 1, 0x08, 0, 6, 4};
    std::fill_n(frame.begin(), 6, std::byte{0xff});
    put(6, own);
    put(12, kHeader);
    frame[kArpOperation + 1] = std::byte{kArpRequest};
    put(kArpSenderMac, own);
    put(kArpSenderIp, from);
    put(kArpTargetIp, to);
    return frame;
}

UniqueFd udp_sink(const Ipv4Address& address) {
    UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    const int least = 1;
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(kRocev2);
    std::memcpy(&name.sin_addr, address.data(), address.size());
    if (fd) {
        (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    }
    // Taken: an RDMA device of this host has it, and the kernel sends no ICMP either.
    if (fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 &&
        errno != EADDRINUSE) {
        throw SetupError("cannot bind UDP port 4791: " + reason());
    }
    return fd;
}

}  // namespace

PacketPort::PacketPort(const std::string& interface, std::uint32_t frames_per_second)
    : interface_(interface), gap_ns_(kSecondNs / std::max(frames_per_second, 1U)) {
    look_at_interface();
    frames_ = UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!frames_) {
        throw SetupError("cannot open a packet socket on " + interface + ": " + reason() +
                         "; the tester needs CAP_NET_RAW (run it as root)");
    }
    const int stamps = 1;
    if (::setsockopt(frames_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof kReceiveBytes) != 0) {
        (void)::setsockopt(frames_.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof kReceiveBytes);
    }
    sockaddr_ll name{};
    name.sll_family = AF_PACKET;
    name.sll_protocol = htons(ETH_P_ALL);
    name.sll_ifindex = index_;
    if (::setsockopt(frames_.get(), SOL_SOCKET, SO_TIMESTAMPNS, &stamps, sizeof stamps) != 0 ||
        ::bind(frames_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        throw SetupError("cannot take frames from " + interface + ": " + reason());
    }
    rocev2_sink_ = udp_sink(address_);
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
    ask(SIOCGIFADDR, "it has no IPv4 address; `ip address add ADDRESS/PREFIX dev " + interface_ + "`");
    const auto address_of = [&] {
        sockaddr_in name{};
        std::memcpy(&name, &request.ifr_addr, sizeof name);
        return name.sin_addr;
    };
    const in_addr own = address_of();
    std::memcpy(address_.data(), &own, address_.size());
    ask(SIOCGIFNETMASK, "no netmask");
    netmask_ = ntohl(address_of().s_addr);
}

bool PacketPort::is_neighbour(const Ipv4Address& address) const {
    const std::uint32_t other = as_number(address);
    const std::uint32_t own = as_number(address_);
    const bool is_point_to_point = (~netmask_) <= 1;
    return other != own && (other & netmask_) == (own & netmask_) &&
           (is_point_to_point || ((other | netmask_) != ~0U && (other & ~netmask_) != 0));
}

TimeNs PacketPort::now() const {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return to_ns(time);
}

TimeNs PacketPort::send(std::span<const std::byte> frame) {
    TimeNs time = now();
    // Unless the clock was set back meanwhile.
    if (next_send_ > time && next_send_ < time + kSecondNs) {
        const timespec gap{0, static_cast<long>(next_send_ - time)};
        ::nanosleep(&gap, nullptr);
        time = now();
    }
    next_send_ = std::max(time, next_send_ > time + kSecondNs ? time : next_send_) + gap_ns_;
    const TimeNs end = time + kSecondNs;
    while (::send(frames_.get(), frame.data(), frame.size(), 0) < 0) {
        if ((errno != EAGAIN && errno != ENOBUFS && errno != EINTR) || now() > end) {
            throw BenchFailed("cannot send on " + interface_ + ": " + reason() +
                              (errno == EMSGSIZE ? "; its MTU is smaller than the path MTU needs" : ""));
        }
        pollfd ready{frames_.get(), POLLOUT, 0};
        (void)::poll(&ready, 1, 1);
    }
    return time;
}

std::optional<SeenFrame> PacketPort::receive(TimeNs until) {
    std::vector<std::byte> buffer(kMaxFrame);
    for (;;) {
        sockaddr_ll from{};
        iovec piece{buffer.data(), buffer.size()};
        alignas(cmsghdr) std::array<char, 256> control{};
        msghdr message{};
        message.msg_name = &from;
        message.msg_namelen = sizeof from;
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t length = ::recvmsg(frames_.get(), &message, MSG_DONTWAIT);
        if (length >= 0) {
            if (from.sll_pkttype == PACKET_OUTGOING) {
                continue;
            }
            SeenFrame frame;
            frame.time = now();
            for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
                 item = CMSG_NXTHDR(&message, item)) {
                if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_TIMESTAMPNS) {
                    timespec stamp{};
                    std::memcpy(&stamp, CMSG_DATA(item), sizeof stamp);
                    frame.time = to_ns(stamp);
                }
            }
            frame.bytes.assign(buffer.begin(), buffer.begin() + length);
            return frame;
        }
        if (errno == ENETDOWN) {
            throw BenchFailed("interface " + interface_ + " went down");
        }
        if (errno != EAGAIN && errno != EINTR) {
            throw BenchFailed("cannot receive on " + interface_ + ": " + reason());
        }
        const TimeNs time = now();
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

std::optional<Mac> PacketPort::resolve(const Ipv4Address& neighbour, TimeNs patience_ns) {
    const FrameBytes request = arp_request(mac_, address_, neighbour);
    constexpr int kTries = 3;
    for (int i = 0; i < kTries; ++i) {
        const TimeNs end = send(request) + patience_ns / kTries;
        while (const std::optional<SeenFrame> frame = receive(end)) {
            const std::byte* bytes = frame->bytes.data();
            if (frame->bytes.size() >= kArpBytes && wire::load_be16(bytes + 12) == ETH_P_ARP &&
                wire::load_be16(bytes + kArpOperation) == kArpReply &&
                std::memcmp(bytes + kArpSenderIp, neighbour.data(), neighbour.size()) == 0) {
                Mac mac{};
                std::memcpy(mac.data(), bytes + kArpSenderMac, mac.size());
                return mac;
            }
            if (now() > end) {
                break;
            }
        }
    }
    return {};
}

}  // namespace urnic::conform
