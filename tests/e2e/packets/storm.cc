// storm --interface NAME --mac MAC --ip ADDRESS --peer ADDRESS --frames N [--qp N]... CAPTURE...
// Sends N hostile frames to a host as fast as the interface takes them; prints how many, and the seed to do
// it again.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "os/command_line.h"
#include "tests/e2e/packets/hostile_frames.h"
#include "tests/support/pcap.h"

namespace {

using urnic::test::Bytes;

constexpr std::size_t kBlock = 1024;      // frames made at a time
constexpr std::size_t kRepetitions = 16;  // making one takes far longer than sending it

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

int open_interface(const std::string& name, std::size_t& max_frame_bytes) {
    const int fd = ::socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) fail("packet socket");
    ifreq request{};
    name.copy(request.ifr_name, sizeof request.ifr_name - 1);
    if (::ioctl(fd, SIOCGIFMTU, &request) != 0) fail(name.c_str());
    max_frame_bytes = static_cast<std::size_t>(request.ifr_mtu) + 14;
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(::if_nametoindex(name.c_str()));
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail(name.c_str());
    return fd;
}

/// Returns how many the kernel took; it refuses some that are too short or too long.
std::size_t send_block(int fd, const std::vector<Bytes>& frames) {
    std::vector<iovec> pieces(frames.size());
    std::vector<mmsghdr> messages(frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
        pieces[i] = {const_cast<std::byte*>(frames[i].data()), frames[i].size()};
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    std::size_t sent = 0;
    for (std::size_t at = 0; at < frames.size();) {
        const int taken = ::sendmmsg(fd, messages.data() + at, static_cast<unsigned>(frames.size() - at), 0);
        if (taken > 0) {
            sent += static_cast<std::size_t>(taken);
            at += static_cast<std::size_t>(taken);
        } else if (errno == EINVAL || errno == EMSGSIZE) {
            ++at;
        } else if (errno != ENOBUFS && errno != EINTR && errno != EAGAIN) {
            fail("send");
        }
    }
    return sent;
}

void parse_ipv4(const std::string& text, std::array<std::uint8_t, 4>& address) {
    if (::inet_pton(AF_INET, text.c_str(), address.data()) != 1) {
        throw std::runtime_error(text + " is no IPv4 address");
    }
}

}  // namespace

int main(int argc, char** argv) {
    urnic::CommandLine app("Sends hostile frames to a host.");
    std::string interface, mac, ip, peer;
    std::size_t frames = 0;
    std::vector<std::string> captures;
    urnic::test::Victim victim;
    app.option("--interface", interface).required();
    app.option("--mac", mac).required();
    app.option("--ip", ip).required();
    app.option("--peer", peer).required();
    app.option("--frames", frames).required();
    app.option("--qp", victim.qp_nums, "a QP number of the host").one_value();
    app.option("captures", captures).required();
    if (const auto status = app.parse(argc, argv)) return *status;
    try {
        auto& m = victim.mac;
        if (std::sscanf(mac.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &m[0], &m[1], &m[2], &m[3], &m[4],
                        &m[5]) != 6) {
            throw std::runtime_error(mac + " is no MAC address");
        }
        parse_ipv4(ip, victim.ipv4);
        parse_ipv4(peer, victim.peer_ipv4);
        const int fd = open_interface(interface, victim.max_frame_bytes);
        std::vector<Bytes> packets;
        for (const std::string& path : captures) {
            for (Bytes& frame : urnic::test::read_pcap(path)) {
                packets.push_back(std::move(frame));
            }
        }
        urnic::test::Random random;
        urnic::test::HostileFrames hostile(std::move(packets), victim, random);
        std::size_t sent = 0;
        while (sent < frames) {
            std::vector<Bytes> block(kBlock);
            std::generate(block.begin(), block.end(), [&] { return hostile.next(); });
            for (std::size_t i = 0; i < kRepetitions && sent < frames; ++i) {
                sent += send_block(fd, block);
            }
        }
        std::ostringstream replay;
        replay << random;
        std::printf("sent %zu frames %s\n", sent, replay.str().c_str());
        ::close(fd);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "storm: %s\n", error.what());
        return 1;
    }
    return 0;
}
